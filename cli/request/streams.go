package request

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
	"remshell/launch/stdio/pattern"
)

// labels are the patterns that the words of -label stand for: those of Hydra, and of
// Open MPI, for which all ranks of a command line are job 1.
var labels = map[string]string{
	"rank": "[%r] ", "tag": "[1,%r]<%s>:", "tag-detailed": "[1,%r][%h:%P]<%s>:",
}

// streams says where the ranks' streams come from and go to. Faults are told together.
func (w World) streams(j option.Job) (s job.Streams, err error) {
	words := j.Outputs()
	s = job.Streams{
		Show: j.OutputFrom.List, PTY: j.PTY.List, Ordered: j.Ordered,
		Merge: words.Merge, Raw: words.Raw || j.PTY.List != nil, Collapse: j.Collapse,
	}
	if _, defined := w.env("PSI_MERGEOUTPUT"); defined && !j.Ordered {
		s.Collapse = true
	}
	return s, errors.Join(stdinTo(&s, j, w.env), label(&s, j, words, w.env), w.outputFiles(&s, j, words), mixable(s))
}

// mixable refuses ways to put lines together that exclude each other.
func mixable(s job.Streams) error {
	switch {
	case s.Collapse && s.Raw:
		return &fault.Error{Text: "--collapse compares lines, and --unbuffered makes none", Remedy: "keep one"}
	case s.Collapse && s.Out.Label+s.Err.Label != "" && s.Out.Label != labels["rank"]:
		return &fault.Error{Text: "--collapse has labels of its own, such as [0-3,7]", Remedy: "leave out the other labels"}
	}
	return nil
}

// stdinTo says who reads our standard input: the option, or else a variable.
func stdinTo(s *job.Streams, j option.Job, env func(string) (string, bool)) error {
	to := j.Stdin
	for _, name := range []string{"MPIEXEC_STDIN_DEST", "PSI_INPUTDEST"} {
		if value, defined := env(name); defined && to.Text == "" {
			if err := to.UnmarshalText([]byte(value)); err != nil {
				return &fault.Error{Text: fmt.Sprintf("%s: %v", name, err)}
			}
		}
	}
	s.Stdin, s.From = to.Ranks, to.File
	return nil
}

// label finds what each line begins with: options, or else variables.
func label(s *job.Streams, j option.Job, words option.Output, env func(string) (string, bool)) error {
	pattern := string(j.Pattern)
	for _, word := range []string{j.Label, words.Tag} {
		switch {
		case word == "":
		case pattern != "" && pattern != labels[word]:
			return &fault.Error{Text: "there are two kinds of labels: " + strconv.Quote(pattern) + " and " + strconv.Quote(labels[word]), Remedy: "keep one"}
		default:
			pattern = labels[word]
		}
	}
	s.Out.Label, s.Err.Label = pattern, pattern
	if pattern == "" {
		if err := labelFrom(s, env); err != nil {
			return err
		}
	}
	if words.Timestamp {
		s.Out.Label, s.Err.Label = "%T "+s.Out.Label, "%T "+s.Err.Label
	}
	return nil
}

// labelFrom reads MPICH's variables for labels, in which %d is the rank and %w the
// group, and ParaStation's.
func labelFrom(s *job.Streams, env func(string) (string, bool)) error {
	if _, defined := env("PSI_SOURCEPRINTF"); defined {
		s.Out.Label, s.Err.Label = labels["rank"], labels["rank"]
	}
	if _, defined := env("MPIEXEC_PREFIX_DEFAULT"); defined {
		s.Out.Label, s.Err.Label = "%r>", "%r(err)>"
	}
	for _, x := range []struct {
		name  string
		label *string
	}{{"MPIEXEC_PREFIX_STDOUT", &s.Out.Label}, {"MPIEXEC_PREFIX_STDERR", &s.Err.Label}} {
		value, defined := env(x.name)
		if !defined {
			continue
		}
		ours := strings.NewReplacer("%%", "%%", "%d", "%r", "%w", "%g").Replace(value)
		if _, err := pattern.ParseLabel(ours); err != nil {
			return &fault.Error{Text: fmt.Sprintf("%s: %q: a %% is followed by d, w or %%", x.name, value)}
		}
		*x.label = ours
	}
	return nil
}

// outputFiles says which files output goes to. Of Open MPI's ways, output goes on to our
// own streams too.
func (w World) outputFiles(s *job.Streams, j option.Job, words option.Output) error {
	if text, nocopy := strings.CutSuffix(string(j.OutputDir), ":nocopy"); text != "" {
		words.Dir, words.NoCopy = text, words.NoCopy || nocopy
	}
	literal := strings.NewReplacer("%", "%%").Replace
	switch {
	case (words.Dir != "" || words.File != "") && j.OutFile.Name+j.ErrFile.Name != "", words.Dir != "" && words.File != "":
		return &fault.Error{Text: "output goes to files in two ways", Remedy: "keep one of -outfile-pattern, --output-filename and --output"}
	case words.Dir != "":
		where := literal(words.Dir) + "/1/rank.%R/"
		s.Out = job.Output{Label: s.Out.Label, File: where + "stdout", Quiet: words.NoCopy}
		s.Err = job.Output{Label: s.Err.Label, File: where + "stderr", Quiet: words.NoCopy}
	case words.File != "":
		s.Out.File, s.Err.File = literal(words.File)+".%R", literal(words.File)+".%R"
		s.Out.Quiet, s.Err.Quiet = words.NoCopy, words.NoCopy
	default:
		filePattern(&s.Out, j.OutFile)
		filePattern(&s.Err, j.ErrFile)
	}
	err := w.folderOf(s.Out.File)
	if err == nil {
		err = w.folderOf(s.Err.File)
	}
	return err
}

// filePattern takes -outfile-pattern or -errfile-pattern.
func filePattern(s *job.Output, pattern option.FilePattern) {
	if pattern.Name != "" {
		s.File, s.Append, s.Quiet = pattern.Name, pattern.Append, true
	}
}

// folderOf returns an error if the folder of an output file cannot be made since a file is in its place. Without this
// check the user would read about it only when the job has hosts. What stands behind the first % is not known yet.
func (w World) folderOf(pattern string) error {
	known, _, _ := strings.Cut(pattern, "%")
	for end, letter := range known {
		if letter != '/' || end == 0 {
			continue
		}
		info, err := w.Stat(known[:end])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it and what is below it will be made
		case err != nil:
			return err
		case !info.IsDir():
			return &fault.Error{Text: fmt.Sprintf("%s: %s is a file, and no folder", pattern, known[:end]), Remedy: "name a folder, or remove the file"}
		}
	}
	return nil
}
