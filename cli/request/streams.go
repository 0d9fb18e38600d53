package request

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch/stdio/pattern"
	"remshell/usererr"
)

// labelPatterns maps the values of -label in Hydra and Open MPI to patterns for the label. In Open MPI's pattern, all
// ranks of a command line belong to job 1.
var labelPatterns = map[string]string{
	"rank": "[%r] ", "tag": "[1,%r]<%s>:", "tag-detailed": "[1,%r][%h:%P]<%s>:",
}

// streamsRequest returns which ranks read standard input and where the ranks' output goes. If there are
// several errors, it returns them all together.
func (w Inputs) streamsRequest(j option.JobOptions) (s job.Streams, err error) {
	words := j.Outputs()
	s = job.Streams{
		ShownRanks: j.OutputFrom.List, PTY: j.PTY.List, Ordered: j.Ordered,
		MergeStderr: words.Merge, Raw: words.Raw || j.PTY.List != nil, Collapse: j.Collapse,
	}
	if _, defined := w.lookupEnv("PSI_MERGEOUTPUT"); defined && !j.Ordered {
		s.Collapse = true
	}
	return s, errors.Join(setStdin(&s, j, w.lookupEnv), setLabel(&s, j, words, w.lookupEnv), w.setOutputFiles(&s, j, words), checkLineOptions(s))
}

// checkLineOptions returns an error if two of the options about lines of output exclude each other.
func checkLineOptions(s job.Streams) error {
	switch {
	case s.Collapse && s.Raw:
		return &usererr.Error{Text: "--collapse cannot be used with --unbuffered, because --collapse compares whole lines", Remedy: "use only one of them"}
	case s.Collapse && s.Out.Label+s.Err.Label != "" && s.Out.Label != labelPatterns["rank"]:
		return &usererr.Error{Text: "--collapse prints its own labels, such as [0-3,7]", Remedy: "leave out options that set other labels"}
	}
	return nil
}

// setStdin sets which ranks read mpiexec's standard input. The option -stdin takes precedence over environment
// variables.
func setStdin(s *job.Streams, j option.JobOptions, env func(string) (string, bool)) error {
	to := j.Stdin
	for _, name := range []string{"MPIEXEC_STDIN_DEST", "PSI_INPUTDEST"} {
		if value, defined := env(name); defined && to.Text == "" {
			if err := to.UnmarshalText([]byte(value)); err != nil {
				return &usererr.Error{Text: fmt.Sprintf("%s: %v", name, err)}
			}
		}
	}
	s.Stdin, s.StdinFile = to.Ranks, to.File
	return nil
}

// setLabel sets the label before each line of output. Options take precedence over environment variables.
func setLabel(s *job.Streams, j option.JobOptions, words option.Output, env func(string) (string, bool)) error {
	pattern := string(j.Pattern)
	for _, word := range []string{j.Label, words.Tag} {
		switch {
		case word == "":
		case pattern != "" && pattern != labelPatterns[word]:
			return &usererr.Error{Text: "two different labels are requested: " + strconv.Quote(pattern) + " and " + strconv.Quote(labelPatterns[word]), Remedy: "use only one of them"}
		default:
			pattern = labelPatterns[word]
		}
	}
	s.Out.Label, s.Err.Label = pattern, pattern
	if pattern == "" {
		if err := setLabelFromEnv(s, env); err != nil {
			return err
		}
	}
	if words.Timestamp {
		s.Out.Label, s.Err.Label = "%T "+s.Out.Label, "%T "+s.Err.Label
	}
	return nil
}

// setLabelFromEnv sets the label from variables of ParaStation and MPICH. In MPICH's variable, %d stands for
// the rank and %w for the group.
func setLabelFromEnv(s *job.Streams, env func(string) (string, bool)) error {
	if _, defined := env("PSI_SOURCEPRINTF"); defined {
		s.Out.Label, s.Err.Label = labelPatterns["rank"], labelPatterns["rank"]
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
			return &usererr.Error{Text: fmt.Sprintf("%s: %q: after %%, only d, w and %% are allowed", x.name, value)}
		}
		*x.label = ours
	}
	return nil
}

// setOutputFiles sets the files that receive the output. With Open MPI's options, the output also goes to
// mpiexec's own stdout and stderr.
func (w Inputs) setOutputFiles(s *job.Streams, j option.JobOptions, words option.Output) error {
	if text, nocopy := strings.CutSuffix(string(j.OutputDir), ":nocopy"); text != "" {
		words.Dir, words.NoCopy = text, words.NoCopy || nocopy
	}
	literal := strings.NewReplacer("%", "%%").Replace
	switch {
	case (words.Dir != "" || words.File != "") && j.OutFile.Name+j.ErrFile.Name != "", words.Dir != "" && words.File != "":
		return &usererr.Error{Text: "several options write the output to files", Remedy: "use only one of -outfile-pattern, --output-filename and --output"}
	case words.Dir != "":
		where := literal(words.Dir) + "/1/rank.%R/"
		s.Out = job.Output{Label: s.Out.Label, File: where + "stdout", FileOnly: words.NoCopy}
		s.Err = job.Output{Label: s.Err.Label, File: where + "stderr", FileOnly: words.NoCopy}
	case words.File != "":
		s.Out.File, s.Err.File = literal(words.File)+".%R", literal(words.File)+".%R"
		s.Out.FileOnly, s.Err.FileOnly = words.NoCopy, words.NoCopy
	default:
		setFilePattern(&s.Out, j.OutFile)
		setFilePattern(&s.Err, j.ErrFile)
	}
	err := w.checkOutputFolder(s.Out.File)
	if err == nil {
		err = w.checkOutputFolder(s.Err.File)
	}
	return err
}

// setFilePattern applies -outfile-pattern or -errfile-pattern.
func setFilePattern(s *job.Output, pattern option.FilePattern) {
	if pattern.Name != "" {
		s.File, s.Append, s.FileOnly = pattern.Name, pattern.Append, true
	}
}

// checkOutputFolder returns an error if a file has the name of the directory for output files. It checks only the
// part of the path before the first %.
func (w Inputs) checkOutputFolder(pattern string) error {
	known, _, _ := strings.Cut(pattern, "%")
	for end, letter := range known {
		if letter != '/' || end == 0 {
			continue
		}
		info, err := w.Stat(known[:end])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it will be made, with all below it
		case err != nil:
			return err
		case !info.IsDir():
			return &usererr.Error{Text: fmt.Sprintf("%s: %s is not a folder", pattern, known[:end]), Remedy: "choose another folder, or remove the file"}
		}
	}
	return nil
}
