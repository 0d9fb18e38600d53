package cli

import (
	"io"
	"path/filepath"
	"slices"

	"remshell/cli/aprun"
	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/format"
	"remshell/job"
)

// This file lets the program be called as another one.

// aprunArg, before all others, says that the options are those of aprun.
const aprunArg = "--aprun"

// FrontEndArgs is the arguments of a program that may be called by another name: as aprun, it has the options
// of that.
func FrontEndArgs(args []string) []string {
	if len(args) > 0 && filepath.Base(args[0]) == "aprun" {
		return append([]string{aprunArg}, args[1:]...)
	}
	return args[min(1, len(args)):]
}

// FrontEndEnv is the environment of a program that may be called by another name: as mpirun, --lenient is the default.
func FrontEndEnv(args, environ []string) []string {
	if len(args) == 0 || !slices.Contains([]string{"mpirun", "mpirun.remshell"}, filepath.Base(args[0])) {
		return environ
	}
	if _, said := job.LookupEnv(environ, "MPIEXEC_LENIENT"); said {
		return environ
	}
	return append(slices.Clone(environ), "MPIEXEC_LENIENT=1") // ranks get no MPIEXEC_* of ours
}

// translateAprun makes mpiexec's words of a line of aprun, or tells of that what was asked.
func translateAprun(args []string, table *option.Table, sys System) (words []string, done bool, err error) {
	if slices.Equal(args, []string{"--man"}) {
		_, err = io.WriteString(sys.Out, aprun.Man(Version))
		return nil, true, err
	}
	if words, asked := completionWords(args); asked {
		return nil, true, printAprunCompletion(words, sys)
	}
	w := newInputs(sys)
	system, _ := w.BatchJob()
	line, err := aprun.Translate(args, aprun.Env{Read: request.ReadTexts(w.OpenFile), OptionWords: table.CountWords, InAllocation: system != nil})
	if err != nil {
		return nil, false, err
	}
	if line.Help {
		_, err = io.WriteString(sys.Out, aprun.Help())
		return nil, true, err
	}
	for _, text := range line.Warnings {
		sys.newMessagePrinter(sys.Err, option.JobOptions{}).printMessage(message{messageKind: warningMessage, text: "warning: " + format.EscapeSentence(text)})
	}
	return line.Args, false, nil
}
