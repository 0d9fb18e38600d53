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

// This file lets mpiexec be called as aprun or mpirun.

// aprunArg, as the first argument, marks the rest as options of aprun.
const aprunArg = "--aprun"

// FrontEndArgs returns mpiexec's arguments for a command line, args[0] being the program's name. If that is aprun,
// aprunArg comes first.
func FrontEndArgs(args []string) []string {
	if len(args) > 0 && filepath.Base(args[0]) == "aprun" {
		return append([]string{aprunArg}, args[1:]...)
	}
	return args[min(1, len(args)):]
}

// FrontEndEnv returns the environment for a command line, args[0] being the program's name. If that is mpirun,
// MPIEXEC_LENIENT=1 is added, unless the variable is set.
func FrontEndEnv(args, environ []string) []string {
	if len(args) == 0 || !slices.Contains([]string{"mpirun", "mpirun.remshell"}, filepath.Base(args[0])) {
		return environ
	}
	if _, isSet := job.LookupEnv(environ, "MPIEXEC_LENIENT"); isSet {
		return environ
	}
	return append(slices.Clone(environ), "MPIEXEC_LENIENT=1") // ranks get no MPIEXEC_* of ours
}

// translateAprun translates the arguments of aprun to those of mpiexec. If they ask for help, the manual or a
// completion, it prints that and returns done.
func translateAprun(args []string, table *option.Table, sys System) (words []string, done bool, err error) {
	if slices.Equal(args, []string{"--man"}) {
		_, err = io.WriteString(sys.Out, aprun.Man(Version))
		return nil, true, err
	}
	if words, isCompletion := completionWords(args); isCompletion {
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
