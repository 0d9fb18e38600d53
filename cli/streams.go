package cli

import (
	"io"
	"os"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
	"remshell/launch/stdio"
)

// This file opens our own streams for the ranks.

// input is what ranks read; nil: nothing. Standard input that is the host file or the
// rank file is not for them (IO-6).
func input(line option.Line, s job.Streams, stdin io.Reader) (io.Reader, error) {
	taken := line.Job.RankFile == "-"
	for _, section := range line.Sections {
		taken = taken || section.HostFile == "-"
	}
	switch {
	case s.From != "":
		file, err := os.Open(s.From)
		if err != nil {
			return nil, &fault.Error{Text: "-stdin: " + err.Error()}
		}
		return file, nil
	case taken || s.Stdin != nil && len(s.Stdin) == 0:
		return nil, nil
	}
	return foreground(stdin), nil
}

// printers write what the ranks write, and our own lines. Where events have the place of standard
// output, both streams go to standard error.
func printers(j option.Job, sys System) (out, errs *stdio.Printer) {
	if j.JSON == "-" && starts(j) {
		return stdio.Stdout(unvectored{sys.Err}), stdio.Stderr(unvectored{sys.Err})
	}
	return stdio.Stdout(sys.Out), stdio.Stderr(sys.Err)
}

// Unvectored hides that a stream is a file, to which pieces would go one by one, with the other
// printer's between them: a write of a file is whole.
type unvectored struct{ io.Writer }
