/*
Package aprun is the personality of Cray's aprun: it makes words of mpiexec's of those of aprun, and
nothing behind it knows which they were (aprun.md).

	-n 8 -d 2 -N 4 a  --Translate-->  --sort none --no-share-hosts -n 8 --depth 2 --shape 4 -membind local a

Each letter is a row of a table, of which --help is made too. It opens no file but by the function that it is given.
*/
package aprun

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/usererr"
)

// An Env is what a line may need beside itself.
type Env struct {
	Read         func(name string) (string, error) // a file as a whole
	OptionWords  func(args []string) int           // how many words a long option of mpiexec takes, itself included
	InAllocation bool                              // a batch system has given us hosts
}

// A Line is what a command line comes to.
type Line struct {
	Args     []string // of mpiexec
	Warnings []string // of what has no counterpart
	Help     bool     // it was asked for, and nothing else counts
}

// Translate makes a line of mpiexec of one of aprun.
func Translate(args []string, w Env) (Line, error) {
	t := translator{Env: w, separator: separator(args)}
	segments, err := w.splitSegments(args)
	if err != nil {
		return Line{}, err
	}
	for i, words := range segments {
		s := segment{translator: &t, words: words}
		if err := s.readOptions(); err != nil {
			return Line{}, err
		}
		if i > 0 {
			t.segments = append(t.segments, t.separator)
		}
		t.segments = append(t.segments, s.mpiexecWords()...)
	}
	return t.assembleLine(), t.checkBatchSized()
}

// splitSegments cuts a line at lone colons; behind -- there are none.
func (w Env) splitSegments(args []string) (segments [][]string, err error) {
	from := 0
	for i, word := range args {
		if word == "--" {
			break
		}
		if word == ":" {
			segments, from = append(segments, args[from:i]), i+1
		}
	}
	segments = append(segments, args[from:])
	for i, words := range segments {
		if len(segments) > 1 && !w.hasProgram(words) {
			where := "before"
			if i == len(segments)-1 {
				where = "behind"
			}
			return nil, &usererr.Error{Text: fmt.Sprintf("empty segment %s \":\"", where), Remedy: "each segment has a program"}
		}
	}
	return segments, nil
}

// hasProgram reports whether a segment names one, behind its options.
func (w Env) hasProgram(words []string) bool {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			return i+1 < len(words)
		}
		if !strings.HasPrefix(word, "-") {
			return true
		}
		if strings.HasPrefix(word, "--") {
			i += max(1, w.OptionWords(words[i:])) - 1
		} else if r, joined := findLetter(word); r != nil && r.arg != "" && joined == "" {
			i++
		}
	}
	return false
}

// separator is what stands between sections for mpiexec: a colon, unless a program has that as an argument.
func separator(args []string) string {
	text := ":"
	for slices.Contains(args, text) && slices.Contains(args, "--") {
		text += ":"
	}
	return text
}

// A translator is a line on its way.
type translator struct {
	Env
	separator    string
	job          []string // options of the whole job
	segments     []string
	warnings     []string
	help         bool
	bindingGiven bool            // -cc or -cp was given
	given        map[string]bool // long options that were given
	depth        int             // of the first segment; 0: not said
	batchSized   bool            // -B was said
	sizeLetter   string          // the first of the letters that -B stands for; empty: none was said
}

// allocationLetters are those letters: n, d, N and m are the allocation's.
var allocationLetters = []string{"n", "d", "N", "m"}

// checkBatchSized is the refusal of a line that says what -B leaves to the batch system.
func (t *translator) checkBatchSized() error {
	if !t.batchSized || t.sizeLetter == "" {
		return nil
	}
	return &usererr.Error{Text: fmt.Sprintf("-B: -%s beside it, which the batch system has said", t.sizeLetter), Remedy: "leave one of them out"}
}

// assembleLine puts the whole together. What aprun does by default and mpiexec does not is said, unless the line does.
func (t *translator) assembleLine() Line {
	var args []string
	if t.separator != ":" {
		args = append(args, "-separator", t.separator)
	}
	if !t.given["--sort"] {
		args = append(args, "--sort", "none")
	}
	if !t.given["--share-hosts"] {
		args = append(args, "--no-share-hosts")
	}
	if !t.given["--quiet"] && !slices.Contains(t.job, "--quiet") && !t.given["--usage"] {
		args = append(args, "--usage=application")
	}
	if t.needsDefaultBinding() {
		args = append(args, "--omp-places", "cpu")
	}
	return Line{Args: slices.Concat(args, t.job, t.segments), Warnings: t.warnings, Help: t.help}
}

// needsDefaultBinding reports whether nothing was said of binding: ranks have the CPUs of their seats, and threads one each.
func (t *translator) needsDefaultBinding() bool {
	says := func(name string) bool { return t.given[name] }
	return !t.bindingGiven && !slices.ContainsFunc([]string{"--omp-places", "--bind-to", "--cpu-bind", "--pin", "--no-pin"}, says)
}

// A segment is one of them on its way.
type segment struct {
	*translator
	words   []string
	pos     int
	args    []string // of mpiexec
	program []string

	countGiven, strictGiven, memoryGiven bool // -n, -ss, a policy of memory were said
	depth                                int
	binding                              string // of -cc
}

// readOptions reads the options up to the program.
func (s *segment) readOptions() error {
	for s.pos < len(s.words) && strings.HasPrefix(s.words[s.pos], "-") {
		word := s.words[s.pos]
		if word == "--" {
			s.pos++
			break
		}
		var err error
		if strings.HasPrefix(word, "--") {
			err = s.passLongOption(word)
		} else {
			err = s.readLetter(word)
		}
		if err != nil {
			return err
		}
	}
	s.program = s.words[min(s.pos, len(s.words)):]
	return s.translateBinding()
}

// passLongOption passes an option of mpiexec on, with its value.
func (s *segment) passLongOption(word string) error {
	name, _, _ := strings.Cut(word, "=")
	if s.given == nil {
		s.given = make(map[string]bool)
	}
	s.given[strings.Replace(name, "--no-share-hosts", "--share-hosts", 1)] = true
	switch name {
	case "--help", "-help":
		s.help = true
	case "--ntasks", "--np":
		s.countGiven = true
	case "--strict-mem", "--membind", "--mem-bind", "--no-mem-bind":
		s.memoryGiven = true
	}
	end := min(s.pos+max(1, s.OptionWords(s.words[s.pos:])), len(s.words))
	s.args = append(s.args, s.words[s.pos:end]...)
	s.pos = end
	return nil
}

// readLetter reads one option of aprun's, whose value may be joined to a single letter.
func (s *segment) readLetter(word string) error {
	r, value := findLetter(word)
	if r == nil {
		return &usererr.Error{Text: "unknown option " + strconv.Quote(word), Remedy: "aprun --help lists the letters; options of mpiexec have two dashes here"}
	}
	if s.pos++; r.arg != "" && value == "" {
		if s.pos == len(s.words) {
			return &usererr.Error{Text: fmt.Sprintf("-%s needs a value", r.letters), Remedy: fmt.Sprintf("write -%s %s", r.letters, r.arg)}
		}
		value = s.words[s.pos]
		s.pos++
	}
	if s.sizeLetter == "" && slices.Contains(allocationLetters, r.letters) {
		s.sizeLetter = r.letters
	}
	if err := r.translate(s, value); err != nil {
		return fmt.Errorf("-%s: %w", r.letters, err)
	}
	return nil
}

// findLetter is the row of a word, and the value that is joined to it.
func findLetter(word string) (r *letterRow, joined string) {
	name := strings.TrimPrefix(word, "-")
	for i := range letterRows {
		if letterRows[i].letters == name {
			return &letterRows[i], ""
		}
	}
	for i := range letterRows {
		rest, is := strings.CutPrefix(name, letterRows[i].letters)
		if len(letterRows[i].letters) == 1 && letterRows[i].arg != "" && is && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return &letterRows[i], rest
		}
	}
	return nil, ""
}

// mpiexecWords is the segment in mpiexec's words, with the defaults of aprun.
func (s *segment) mpiexecWords() []string {
	args := s.args
	if !s.countGiven && !s.batchSized && len(s.program) > 0 {
		args = append(args, "-n", "1")
	}
	if !s.strictGiven && !s.memoryGiven && !s.given["--membind"] {
		s.job = addOnce(s.job, "-membind", "local")
	}
	if len(s.program) > 0 {
		args = append(append(args, "--"), s.program...)
	}
	return args
}

// addOnce adds an option of the job, unless it is there.
func addOnce(job []string, words ...string) []string {
	for i := range job {
		if i+len(words) <= len(job) && slices.Equal(job[i:i+len(words)], words) {
			return job
		}
	}
	return append(job, words...)
}

// translateBinding says what -cc means, which depends on the depth of the segment: that of the first, if it says none itself.
func (s *segment) translateBinding() error {
	if s.translator.segments == nil {
		s.translator.depth = s.depth
	}
	if s.depth == 0 {
		s.depth = max(1, s.translator.depth)
	}
	if s.binding == "" {
		return nil
	}
	s.bindingGiven = true
	if s.binding == "cpu" || s.binding == "depth" { // their own, as they have them anyway
		s.job = addOnce(s.job, "--omp-places", s.binding)
		return nil
	}
	word, err := Binding(s.binding, s.depth)
	if err != nil {
		return fmt.Errorf("-cc: %w", err)
	}
	s.job = addOnce(s.job, "--bind-to", word)
	return nil
}
