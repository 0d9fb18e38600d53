package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"remshell/job"
	"remshell/launch/stdio"
)

// labels are the patterns that the words of -label stand for: those of Hydra, and of
// Open MPI, for which all ranks of a command line are job 1.
var labels = map[string]string{
	"rank": "[%r] ", "tag": "[1,%r]<%s>:", "tag-detailed": "[1,%r][%h:%P]<%s>:",
}

// streamsOf says where the ranks' streams come from and go to. Faults are told together.
func streamsOf(j JobOptions, env func(name string) (string, bool)) (s job.Streams, err error) {
	var words outputWords
	for _, spec := range j.Output {
		words.read(string(spec)) // checked before
	}
	s = job.Streams{
		Show: j.OutputFrom.ranks(), PTY: j.PTY.ranks(), Ordered: j.Ordered,
		Merge: j.MergeErr || words.merge, Raw: j.Unbuffered || words.raw || j.PTY != "", Collapse: j.Collapse,
	}
	if _, defined := env("PSI_MERGEOUTPUT"); defined && !j.Ordered {
		s.Collapse = true
	}
	return s, errors.Join(stdinTo(&s, j, env), label(&s, j, words, env), outputFiles(&s, j, words), mixable(s))
}

// mixable refuses ways to put lines together that exclude each other.
func mixable(s job.Streams) error {
	switch {
	case s.Collapse && s.Ordered:
		return &UsageError{"--collapse contradicts -ordered-output", "keep one"}
	case s.Collapse && s.Raw:
		return &UsageError{"--collapse compares lines, and --unbuffered makes none", "keep one"}
	case s.Collapse && s.Out.Label+s.Err.Label != "" && s.Out.Label != labels["rank"]:
		return &UsageError{"--collapse has labels of its own, such as [0-3,7]", "leave out the other labels"}
	}
	return nil
}

// stdinTo says who reads our standard input: the option, or else a variable.
func stdinTo(s *job.Streams, j JobOptions, env func(string) (string, bool)) error {
	to := j.Stdin
	for _, name := range []string{"MPIEXEC_STDIN_DEST", "PSI_INPUTDEST"} {
		if value, defined := env(name); defined && to == "" {
			if err := to.UnmarshalText([]byte(value)); err != nil {
				return &UsageError{fmt.Sprintf("%s: %v", name, err), ""}
			}
		}
	}
	s.Stdin = to.ranks()
	if file, is := to.file(); is {
		s.From = file
	}
	return nil
}

// label finds what each line begins with: options, or else variables.
func label(s *job.Streams, j JobOptions, words outputWords, env func(string) (string, bool)) error {
	pattern := string(j.Pattern)
	for _, word := range []string{j.Label, words.tag} {
		switch {
		case word == "":
		case pattern != "" && pattern != labels[word]:
			return &UsageError{"there are two kinds of labels: " + strconv.Quote(pattern) + " and " + strconv.Quote(labels[word]), "keep one"}
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
	if j.Timestamp || words.timestamp {
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
		if _, err := stdio.ParseLabel(ours); err != nil {
			return &UsageError{fmt.Sprintf("%s: %q: a %% is followed by d, w or %%", x.name, value), ""}
		}
		*x.label = ours
	}
	return nil
}

// outputFiles says which files output goes to. Of Open MPI's ways, output goes on to our
// own streams too.
func outputFiles(s *job.Streams, j JobOptions, words outputWords) error {
	if text, nocopy := strings.CutSuffix(string(j.OutputDir), ":nocopy"); text != "" {
		words.dir, words.nocopy = text, words.nocopy || nocopy
	}
	literal := strings.NewReplacer("%", "%%").Replace
	switch {
	case (words.dir != "" || words.file != "") && j.OutFile+j.ErrFile != "", words.dir != "" && words.file != "":
		return &UsageError{"output goes to files in two ways", "keep one of -outfile-pattern, --output-filename and --output"}
	case words.dir != "":
		where := literal(words.dir) + "/1/rank.%R/"
		s.Out = job.Sink{Label: s.Out.Label, File: where + "stdout", Dirs: true, Quiet: words.nocopy}
		s.Err = job.Sink{Label: s.Err.Label, File: where + "stderr", Dirs: true, Quiet: words.nocopy}
	case words.file != "":
		s.Out.File, s.Err.File = literal(words.file)+".%R", literal(words.file)+".%R"
		s.Out.Quiet, s.Err.Quiet = words.nocopy, words.nocopy
	default:
		return errors.Join(filePattern(&s.Out, string(j.OutFile)), filePattern(&s.Err, string(j.ErrFile)))
	}
	return nil
}

// filePattern takes -outfile-pattern or -errfile-pattern. A directory that is known, and
// is not there, is an error at once, and not only when the job has found its place.
func filePattern(s *job.Sink, pattern string) error {
	if pattern == "" {
		return nil
	}
	s.File, s.Append = strings.CutSuffix(pattern, ":append")
	s.Quiet = true
	dir := filepath.Dir(s.File)
	if strings.Contains(dir, "%") {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &UsageError{fmt.Sprintf("%s: there is no directory %s", s.File, dir), "make it first"}
	case err != nil:
		return err
	case !info.IsDir():
		return &UsageError{fmt.Sprintf("%s: %s is no directory", s.File, dir), ""}
	}
	return nil
}

// LabelPattern is the value of -prepend-pattern.
type LabelPattern string

func (p *LabelPattern) UnmarshalText(text []byte) error {
	*p = LabelPattern(text)
	_, err := stdio.ParseLabel(string(text))
	return err
}

// FilePattern is that of -outfile-pattern; ":append" may follow.
type FilePattern string

func (p *FilePattern) UnmarshalText(text []byte) error {
	*p = FilePattern(text)
	name, _ := strings.CutSuffix(string(text), ":append")
	if name == "" {
		return errors.New("the name of the file is empty")
	}
	_, err := stdio.ParseFile(name)
	return err
}

// Ranks is a list of ranks, "0,3-5", or "all".
type Ranks string

func (r *Ranks) UnmarshalText(text []byte) error {
	*r = Ranks(text)
	_, err := parseRanks(string(text))
	return err
}

func (r Ranks) ranks() job.Ranks {
	if r == "" {
		return nil
	}
	ranks, _ := parseRanks(string(r)) // checked before
	return ranks
}

func parseRanks(text string) (ranks job.Ranks, err error) {
	if strings.EqualFold(text, "all") {
		return job.AllRanks, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(item, "-")
		first, ok := rankNumber(low)
		last := first
		if ok && isRange {
			last, ok = rankNumber(high)
		}
		if !ok || last < first {
			return nil, fmt.Errorf("%q is not a list of ranks such as 0,3-5", text)
		}
		ranks = append(ranks, job.Span{First: first, Last: last})
	}
	return ranks, nil
}

// rankNumber reads digits and nothing else.
func rankNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= min(maxNumber, math.MaxInt) && strings.Trim(text, "0123456789") == ""
}

// StdinTo is the value of -stdin.
type StdinTo string

func (s *StdinTo) UnmarshalText(text []byte) error {
	*s = StdinTo(text)
	if s.none() {
		return nil
	}
	if file, is := strings.CutPrefix(string(text), "file="); is {
		if file == "" {
			return errors.New("the name of the file is empty")
		}
		return nil
	}
	if _, err := parseRanks(string(text)); err != nil {
		return fmt.Errorf("%q is not one of 0, a list of ranks such as 1,3-5, all, none, file=NAME", text)
	}
	return nil
}

func (s StdinTo) none() bool { return strings.EqualFold(string(s), "none") }

// file is the file that is read instead of our standard input.
func (s StdinTo) file() (string, bool) { return strings.CutPrefix(string(s), "file=") }

// ranks are those that read; nil: rank 0, empty: nobody.
func (s StdinTo) ranks() job.Ranks {
	_, file := s.file()
	switch {
	case s.none():
		return job.Ranks{}
	case file || s == "":
		return nil
	}
	return Ranks(s).ranks()
}

// input is what ranks read; nil: nothing. Standard input that is the host file or the
// rank file is not for them (IO-6).
func input(line Line, s job.Streams, stdin io.Reader) (io.Reader, error) {
	taken := line.Job.RankFile == "-"
	for _, section := range line.Sections {
		taken = taken || section.HostFile == "-"
	}
	switch {
	case s.From != "":
		file, err := os.Open(s.From)
		if err != nil {
			return nil, &UsageError{"-stdin: " + err.Error(), ""}
		}
		return file, nil
	case taken || s.Stdin != nil && len(s.Stdin) == 0:
		return nil, nil
	}
	return foreground(stdin), nil
}

// OutputSpec is a value of --output, in the words of Open MPI 5.
type OutputSpec string

func (o *OutputSpec) UnmarshalText(text []byte) error {
	*o = OutputSpec(text)
	return new(outputWords).read(string(text))
}

// outputWords are what --output says.
type outputWords struct {
	tag, dir, file                string
	timestamp, merge, nocopy, raw bool
}

// read reads words with commas between, the last of which may be followed by
// qualifiers, each after a colon.
func (w *outputWords) read(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		word, qualifiers, _ := strings.Cut(word, ":")
		name, value, _ := strings.Cut(word, "=")
		switch strings.ToLower(name) {
		case "tag", "tag-detailed":
			w.tag = strings.ToLower(name)
		case "timestamp":
			w.timestamp = true
		case "merge", "merge-stderr-to-stdout":
			w.merge = true
		case "dir", "directory":
			w.dir = value
		case "file", "filename":
			w.file = value
		case "":
		default:
			return fmt.Errorf("%q is not one of tag, tag-detailed, timestamp, merge, dir=D, file=F", word)
		}
		if strings.HasPrefix(name, "dir") || strings.HasPrefix(name, "file") {
			if value == "" {
				return fmt.Errorf("%q names nothing; write %s=NAME", word, name)
			}
		} else if value != "" {
			return fmt.Errorf("%q: %s takes no value", word, name)
		}
		if err := w.qualify(qualifiers); err != nil {
			return err
		}
	}
	return nil
}

func (w *outputWords) qualify(text string) error {
	for word := range strings.SplitSeq(text, ":") {
		switch strings.ToLower(word) {
		case "", "copy":
		case "nocopy":
			w.nocopy = true
		case "raw":
			w.raw = true
		default:
			return fmt.Errorf("%q is not one of copy, nocopy, raw", word)
		}
	}
	return nil
}
