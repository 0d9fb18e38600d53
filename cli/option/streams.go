package option

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"remshell/job"
	"remshell/launch/stdio"
)

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

func (r Ranks) Ranks() job.Ranks {
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

// File is the file that is read instead of our standard input.
func (s StdinTo) File() (string, bool) { return strings.CutPrefix(string(s), "file=") }

// Ranks are those that read; nil: rank 0, empty: nobody.
func (s StdinTo) Ranks() job.Ranks {
	_, file := s.File()
	switch {
	case s.none():
		return job.Ranks{}
	case file || s == "":
		return nil
	}
	return Ranks(s).Ranks()
}

// OutputSpec is a value of --output, in the words of Open MPI 5.
type OutputSpec string

func (o *OutputSpec) UnmarshalText(text []byte) error {
	*o = OutputSpec(text)
	return new(OutputWords).Read(string(text))
}

// OutputWords are what --output says.
type OutputWords struct {
	Tag, Dir, File                string
	Timestamp, Merge, NoCopy, Raw bool
}

// Read reads words with commas between, the last of which may be followed by
// qualifiers, each after a colon.
func (w *OutputWords) Read(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		word, qualifiers, _ := strings.Cut(word, ":")
		name, value, _ := strings.Cut(word, "=")
		switch strings.ToLower(name) {
		case "tag", "tag-detailed":
			w.Tag = strings.ToLower(name)
		case "timestamp":
			w.Timestamp = true
		case "merge", "merge-stderr-to-stdout":
			w.Merge = true
		case "dir", "directory":
			w.Dir = value
		case "file", "filename":
			w.File = value
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

func (w *OutputWords) qualify(text string) error {
	for word := range strings.SplitSeq(text, ":") {
		switch strings.ToLower(word) {
		case "", "copy":
		case "nocopy":
			w.NoCopy = true
		case "raw":
			w.Raw = true
		default:
			return fmt.Errorf("%q is not one of copy, nocopy, raw", word)
		}
	}
	return nil
}
