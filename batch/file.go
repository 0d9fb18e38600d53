package batch

import (
	"strings"

	"remshell/usererr"
)

// fileSystem is the value of -rmk that selects the host list in a file of the user (--rm-file) instead of a batch
// system.
const fileSystem = "file"

// Form splits the value of --rm-file, FILE[:nodes|counts|pe], into the file name and the format of the host file.
func Form(value string) (file, form string) {
	for _, form := range []string{FormNodes, FormCounts, FormPE} {
		if file, ok := strings.CutSuffix(value, ":"+form); ok && file != "" {
			return file, form
		}
	}
	return value, FormNodes
}

// ofFile reads the host list that the user has given with --rm-file.
func ofFile(w Inputs, options Options) (Allocation, error) {
	a := Allocation{System: fileSystem, Source: options.File, Width: 1}
	switch {
	case options.File == "":
		return a, &usererr.Error{Text: "-rmk file: the name of the file is missing", Remedy: "add --rm-file FILE"}
	case options.Groups != nil:
		return a, noGroups("--rm-file")
	}
	var l list
	missing, wrong := w.readLines("--rm-file", options.File, l.lineParser(options.Form))
	if missing != nil {
		return a, &usererr.Error{Text: missing.Error()}
	}
	a.Hosts = l.all()
	for i := range a.Hosts {
		a.Hosts[i].CPUs = a.Hosts[i].Tasks
	}
	return a, wrong
}
