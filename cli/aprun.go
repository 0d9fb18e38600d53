package cli

import (
	"io"
	"path/filepath"
	"slices"

	"remshell/cli/aprun"
	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/job"
	"remshell/show"
)

// This file lets the program be called as another one.

// aprunArg, before all others, says that the options are those of aprun.
const aprunArg = "--aprun"

// Personality is the arguments of a program that may be called by another name: as aprun, it has the options
// of that.
func Personality(args []string) []string {
	if len(args) > 0 && filepath.Base(args[0]) == "aprun" {
		return append([]string{aprunArg}, args[1:]...)
	}
	return args[min(1, len(args)):]
}

// Environ is the environment of a program that may be called by another name: as mpirun, --lenient is the default.
func Environ(args, environ []string) []string {
	if len(args) == 0 || !slices.Contains([]string{"mpirun", "mpirun.remshell"}, filepath.Base(args[0])) {
		return environ
	}
	if _, said := job.Lookup(environ, "MPIEXEC_LENIENT"); said {
		return environ
	}
	return append(slices.Clone(environ), "MPIEXEC_LENIENT=1") // ranks get no MPIEXEC_* of ours
}

// asAprun makes mpiexec's words of a line of aprun, or tells of that what was asked.
func asAprun(args []string, table *option.Table, sys System) (words []string, done bool, err error) {
	if slices.Equal(args, []string{"--man"}) {
		_, err = io.WriteString(sys.Out, aprun.Man(Version))
		return nil, true, err
	}
	if words, asked := completing(args); asked {
		return nil, true, completeAprun(words, sys)
	}
	w := world(sys)
	system, _ := w.Inside()
	line, err := aprun.Translate(args, aprun.World{Read: request.Texts(w.Open), Takes: table.Takes, Granted: system != nil})
	if err != nil {
		return nil, false, err
	}
	if line.Help {
		_, err = io.WriteString(sys.Out, aprun.Help())
		return nil, true, err
	}
	for _, text := range line.Warnings {
		sys.screen(sys.Err, option.Job{}).print(message{kind: warning, text: "warning: " + show.Clean(text)})
	}
	return line.Args, false, nil
}
