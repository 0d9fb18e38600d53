/*
Package aprun translates a command line of Cray's aprun to one of mpiexec (aprun.md). All other packages
see only options of mpiexec.

	-n 8 -d 2 -N 4 a  --Translate-->  --sort none --no-share-hosts -n 8 --depth 2 --shape 4 -membind local a

Each option letter has a row in a table, from which --help is also generated. Only Env.Read reads files.
*/
package aprun

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/usererr"
)

// An Env contains the inputs of Translate other than the command line.
type Env struct {
	Read         func(name string) (string, error) // returns the content of a file
	OptionWords  func(args []string) int           // number of words that a long option of mpiexec takes, with itself
	HasOption    func(dashed string) bool          // reports whether mpiexec has this option; those of features may be missing
	InAllocation bool                              // a batch system has allocated hosts
}

// A Line is a translated command line.
type Line struct {
	Args     []string // of mpiexec
	Warnings []string // about options without a counterpart in mpiexec
	Help     bool     // help was requested; the rest of the line does not matter
}

// Translate translates the arguments of aprun to those of mpiexec.
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
		if len(s.program) == 0 && t.given == nil { // a long option may ask for something
			return Line{}, &usererr.Error{Text: "no program given", Remedy: "usage: aprun [options] program [args]; see aprun --help"}
		}
		if i > 0 {
			t.segments = append(t.segments, t.separator)
		}
		t.segments = append(t.segments, s.mpiexecWords()...)
	}
	return t.assembleLine(), t.checkBatchSized()
}

// splitSegments splits a command line at each argument ":" before the first "--". It returns an error if there are
// several segments and one of them has no program.
func (w Env) splitSegments(args []string) (segments [][]string, err error) {
	start := 0
	for i, word := range args {
		if word == "--" {
			break
		}
		if word == ":" {
			segments, start = append(segments, args[start:i]), i+1
		}
	}
	segments = append(segments, args[start:])
	for i, words := range segments {
		if len(segments) > 1 && !w.hasProgram(words) {
			text := `the program before ":" is missing`
			if i == len(segments)-1 {
				text = `the program after ":" is missing`
			}
			return nil, &usererr.Error{Text: text, Remedy: "write a program before and after each \":\""}
		}
	}
	return segments, nil
}

// hasProgram reports whether a segment names a program after its options.
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

// separator returns the word that separates app contexts for mpiexec. It is ":", or several colons if an
// argument of a program is ":".
func separator(args []string) string {
	text := ":"
	for slices.Contains(args, text) && slices.Contains(args, "--") {
		text += ":"
	}
	return text
}

// A translator holds the state needed while translating one command line.
type translator struct {
	Env
	separator    string
	job          []string // options of the whole job
	segments     []string
	warnings     []string
	help         bool
	bindingGiven bool            // -cc or -cp was given
	given        map[string]bool // long options that were given
	depth        int             // of the first segment; 0: not given
	batchSized   bool            // -B was given
	sizeLetter   string          // the first given letter of allocationLetters; empty: none was
}

// allocationLetters are the options whose values are taken from the allocation if -B is given.
var allocationLetters = []string{"n", "d", "N", "m"}

// checkBatchSized returns an error if both -B and one of allocationLetters are given.
func (t *translator) checkBatchSized() error {
	if !t.batchSized || t.sizeLetter == "" {
		return nil
	}
	return &usererr.Error{Text: fmt.Sprintf("-B cannot be used with -%s: with -B, the batch system sets that value", t.sizeLetter), Remedy: "leave out one of the two options"}
}

// assembleLine returns the translated line. Where the defaults of aprun differ from those of mpiexec, it adds the
// corresponding options, unless the line already sets them.
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
	if t.HasOption("--usage") && !t.given["--quiet"] && !slices.Contains(t.job, "--quiet") && !t.given["--usage"] {
		args = append(args, "--usage=application")
	}
	if t.needsDefaultBinding() {
		args = append(args, "--omp-places", "cpu")
	}
	return Line{Args: slices.Concat(args, t.job, t.segments), Warnings: t.warnings, Help: t.help}
}

// needsDefaultBinding reports whether no option sets the binding. assembleLine then adds options that bind each rank to
// the CPUs of its slot, and each thread of the rank to one of these CPUs.
func (t *translator) needsDefaultBinding() bool {
	isGiven := func(name string) bool { return t.given[name] }
	return !t.bindingGiven && !slices.ContainsFunc([]string{"--omp-places", "--bind-to", "--cpu-bind", "--pin", "--no-pin"}, isGiven)
}

// A segment holds the state needed while translating one part of the command line. Parts are separated by ":".
type segment struct {
	*translator
	words   []string
	pos     int
	args    []string // of mpiexec
	program []string

	countGiven, strictGiven, memoryGiven bool // -n, -ss, an option about memory were given
	depth                                int
	binding                              string // value of -cc
}

// readOptions translates the options before the program.
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

// passLongOption copies an option of mpiexec and its value unchanged to the translated command line.
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

// readLetter translates one option of aprun. The value of a one-letter option may be in the same word.
func (s *segment) readLetter(word string) error {
	r, value := findLetter(word)
	if r == nil {
		return &usererr.Error{Text: "unknown option " + strconv.Quote(word), Remedy: "aprun --help lists the options; options of mpiexec need two dashes here"}
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

// findLetter returns the table row of an option of aprun, and the option's value if word contains it. It returns nil
// if aprun has no such option.
func findLetter(word string) (r *letterRow, value string) {
	name := strings.TrimPrefix(word, "-")
	for i := range letterRows {
		if letterRows[i].letters == name {
			return &letterRows[i], ""
		}
	}
	for i := range letterRows {
		rest, ok := strings.CutPrefix(name, letterRows[i].letters)
		if len(letterRows[i].letters) == 1 && letterRows[i].arg != "" && ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return &letterRows[i], rest
		}
	}
	return nil, ""
}

// mpiexecWords returns the arguments of mpiexec for the segment, including the defaults of aprun.
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

// addOnce appends words, an option of mpiexec with its value, to the list job, unless the list already contains them.
func addOnce(job []string, words ...string) []string {
	for i := range job {
		if i+len(words) <= len(job) && slices.Equal(job[i:i+len(words)], words) {
			return job
		}
	}
	return append(job, words...)
}

// translateBinding translates aprun's option -cc to --bind-to. The translation depends on the number of CPUs of each
// rank, which is the value of -d in this segment or else in the first segment.
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
	if s.binding == "cpu" || s.binding == "depth" { // the default: each rank has its own CPUs
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
