package cli

import (
	"io"
	"slices"

	"remshell/cli/aprun"
	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/format"
)

// translateAprun translates the arguments of Cray's aprun to those of mpiexec. If they ask for help, the
// manual page or a completion, it prints that and sets done.
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
	line, err := aprun.Translate(args, aprun.Env{Read: request.ReadTexts(w.OpenFile), OptionWords: table.CountWords, HasOption: table.HasOption, InAllocation: system != nil})
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
