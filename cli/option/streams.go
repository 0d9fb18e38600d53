package option

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"remshell/job"
	"remshell/launch/stdio/pattern"
)

// LabelPattern is the value of -prepend-pattern.
type LabelPattern string

func (p *LabelPattern) UnmarshalText(text []byte) error {
	*p = LabelPattern(text)
	_, err := pattern.ParseLabel(string(text))
	return err
}

// FilePattern is the value of -outfile-pattern and -errfile-pattern: a pattern for file names, with or without
// ":append".
type FilePattern struct {
	Name   string // empty: not given
	Append bool
}

func (p *FilePattern) UnmarshalText(text []byte) error {
	p.Name, p.Append = strings.CutSuffix(string(text), ":append")
	if p.Name == "" {
		return errors.New("the name of the file is empty")
	}
	_, err := pattern.ParseFile(p.Name)
	return err
}

func (p FilePattern) String() string {
	if p.Append {
		return p.Name + ":append"
	}
	return p.Name
}

// Ranks is a list of ranks, "0,3-5", or "all".
type Ranks struct {
	Text string      // as given; empty: not given
	List job.RankSet // nil: not given
}

func (r *Ranks) UnmarshalText(text []byte) (err error) {
	r.Text = string(text)
	r.List, err = parseRanks(r.Text)
	return err
}

func (r Ranks) String() string { return r.Text }

func parseRanks(text string) (ranks job.RankSet, err error) {
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
		ranks = append(ranks, job.RankRange{First: first, Last: last})
	}
	return ranks, nil
}

// rankNumber parses a rank. Only digits are allowed.
func rankNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= min(maxNumber, math.MaxInt) && strings.Trim(text, "0123456789") == ""
}

// StdinTo is the value of -stdin, which says which ranks read standard input.
type StdinTo struct {
	Text  string      // as given; empty: not given
	Ranks job.RankSet // ranks that read input; nil: rank 0, empty: none
	File  string      // read instead of our standard input; may be empty
}

// Choices returns the keywords that are allowed in place of a list of ranks.
func (StdinTo) Choices() []string { return []string{"all", "none", "file=NAME"} }

func (s *StdinTo) UnmarshalText(text []byte) error {
	*s = StdinTo{Text: string(text)}
	file, is := strings.CutPrefix(s.Text, "file=")
	switch {
	case strings.EqualFold(s.Text, "none"):
		s.Ranks = job.RankSet{}
		return nil
	case is && file == "":
		return errors.New("the name of the file is empty")
	case is:
		s.File = file
		return nil
	}
	var err error
	if s.Ranks, err = parseRanks(s.Text); err != nil {
		return fmt.Errorf("%q is not one of 0, a list of ranks such as 1,3-5, all, none, file=NAME", text)
	}
	return nil
}

func (s StdinTo) String() string { return s.Text }

// Output is the value of one --output option, in the syntax of Open MPI 5.
type Output struct {
	Text           string // as given
	Tag, Dir, File string

	Timestamp, Merge, NoCopy, Raw, JSON bool
}

func (o Output) String() string { return o.Text }

// Combine merges two values. Each switch that is on in o or in overrides is on in the result. The label and the file
// names come from overrides, or from o if overrides has none.
func (o Output) Combine(overrides Output) Output {
	return Output{
		Tag: cmp.Or(overrides.Tag, o.Tag), Dir: cmp.Or(overrides.Dir, o.Dir), File: cmp.Or(overrides.File, o.File),
		Timestamp: o.Timestamp || overrides.Timestamp, Merge: o.Merge || overrides.Merge, NoCopy: o.NoCopy || overrides.NoCopy, Raw: o.Raw || overrides.Raw, JSON: o.JSON || overrides.JSON,
	}
}

// Choices returns the allowed keywords.
func (Output) Choices() []string {
	return []string{"tag", "tag-detailed", "timestamp", "merge", "raw", "json", "dir=DIR", "file=FILE"}
}

// Outputs merges all --output options.
func (j JobOptions) Outputs() (all Output) {
	for _, more := range j.Output {
		all = all.Combine(more)
	}
	return all
}

// UnmarshalText parses keywords separated by commas. A keyword may be followed by qualifiers, each after a colon.
func (o *Output) UnmarshalText(text []byte) error {
	*o = Output{Text: string(text)}
	if o.Text == "" {
		return errors.New("the value is empty")
	}
	for word := range strings.SplitSeq(o.Text, ",") {
		word, qualifiers, _ := strings.Cut(word, ":")
		name, value, _ := strings.Cut(word, "=")
		switch strings.ToLower(name) {
		case "tag", "tag-detailed":
			o.Tag = strings.ToLower(name)
		case "timestamp":
			o.Timestamp = true
		case "merge", "merge-stderr-to-stdout":
			o.Merge = true
		case "json":
			o.JSON = true
		case "raw":
			o.Raw = true
		case "dir", "directory":
			o.Dir = value
		case "file", "filename":
			o.File = value
		case "":
		default:
			return fmt.Errorf("%q is not one of tag, tag-detailed, timestamp, merge, raw, json, dir=D, file=F", word)
		}
		if strings.HasPrefix(name, "dir") || strings.HasPrefix(name, "file") {
			if value == "" {
				return fmt.Errorf("%q needs a name; write %s=NAME", word, name)
			}
		} else if value != "" {
			return fmt.Errorf("%q: %s does not accept a value", word, name)
		}
		if err := o.parseQualifier(qualifiers); err != nil {
			return err
		}
	}
	return nil
}

func (o *Output) parseQualifier(text string) error {
	for word := range strings.SplitSeq(text, ":") {
		switch strings.ToLower(word) {
		case "", "copy":
		case "nocopy":
			o.NoCopy = true
		case "raw":
			o.Raw = true
		default:
			return fmt.Errorf("%q is not one of copy, nocopy, raw", word)
		}
	}
	return nil
}
