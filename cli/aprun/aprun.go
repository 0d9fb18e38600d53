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

	"remshell/fault"
)

// A World is what a line may need beside itself.
type World struct {
	Read    func(name string) (string, error) // a file as a whole
	Takes   func(args []string) int           // how many words a long option of mpiexec takes, itself included
	Granted bool                              // a batch system has given us hosts
}

// A Line is what a command line comes to.
type Line struct {
	Args     []string // of mpiexec
	Warnings []string // of what has no counterpart
	Help     bool     // it was asked for, and nothing else counts
}

// Translate makes a line of mpiexec of one of aprun.
func Translate(args []string, w World) (Line, error) {
	t := translator{World: w, separator: separator(args)}
	segments, err := w.split(args)
	if err != nil {
		return Line{}, err
	}
	for i, words := range segments {
		s := segment{translator: &t, words: words}
		if err := s.read(); err != nil {
			return Line{}, err
		}
		if i > 0 {
			t.segments = append(t.segments, t.separator)
		}
		t.segments = append(t.segments, s.translated()...)
	}
	return t.line(), t.clash()
}

// split cuts a line at lone colons; behind -- there are none.
func (w World) split(args []string) (segments [][]string, err error) {
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
			return nil, &fault.Error{Text: fmt.Sprintf("empty segment %s \":\"", where), Remedy: "each segment has a program"}
		}
	}
	return segments, nil
}

// hasProgram reports whether a segment names one, behind its options.
func (w World) hasProgram(words []string) bool {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			return i+1 < len(words)
		}
		if !strings.HasPrefix(word, "-") {
			return true
		}
		if strings.HasPrefix(word, "--") {
			i += max(1, w.Takes(words[i:])) - 1
		} else if r, joined := find(word); r != nil && r.arg != "" && joined == "" {
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
	World
	separator string
	job       []string // options of the whole job
	segments  []string
	warnings  []string
	help      bool
	bound     bool            // -cc or -cp was given
	said      map[string]bool // long options that were given
	depth     int             // of the first segment; 0: not said
	batch     bool            // -B was said
	sized     string          // the first of the letters that -B stands for; empty: none was said
}

// granted are those letters: n, d, N and m are the allocation's.
var granted = []string{"n", "d", "N", "m"}

// clash is the refusal of a line that says what -B leaves to the batch system.
func (t *translator) clash() error {
	if !t.batch || t.sized == "" {
		return nil
	}
	return &fault.Error{Text: fmt.Sprintf("-B: -%s beside it, which the batch system has said", t.sized), Remedy: "leave one of them out"}
}

// line puts the whole together. What aprun does by default and mpiexec does not is said, unless the line does.
func (t *translator) line() Line {
	var args []string
	if t.separator != ":" {
		args = append(args, "-separator", t.separator)
	}
	if !t.said["--sort"] {
		args = append(args, "--sort", "none")
	}
	if !t.said["--share-hosts"] {
		args = append(args, "--no-share-hosts")
	}
	if !t.said["--quiet"] && !slices.Contains(t.job, "--quiet") && !t.said["--usage"] {
		args = append(args, "--usage=application")
	}
	if t.ownCPUs() {
		args = append(args, "--omp-places", "cpu")
	}
	return Line{Args: slices.Concat(args, t.job, t.segments), Warnings: t.warnings, Help: t.help}
}

// ownCPUs reports whether nothing was said of binding: ranks have the CPUs of their seats, and threads one each.
func (t *translator) ownCPUs() bool {
	says := func(name string) bool { return t.said[name] }
	return !t.bound && !slices.ContainsFunc([]string{"--omp-places", "--bind-to", "--cpu-bind", "--pin", "--no-pin"}, says)
}

// A segment is one of them on its way.
type segment struct {
	*translator
	words   []string
	pos     int
	args    []string // of mpiexec
	program []string

	counted, strict, memory bool // -n, -ss, a policy of memory were said
	depth                   int
	binding                 string // of -cc
}

// read reads the options up to the program.
func (s *segment) read() error {
	for s.pos < len(s.words) && strings.HasPrefix(s.words[s.pos], "-") {
		word := s.words[s.pos]
		if word == "--" {
			s.pos++
			break
		}
		var err error
		if strings.HasPrefix(word, "--") {
			err = s.long(word)
		} else {
			err = s.letter(word)
		}
		if err != nil {
			return err
		}
	}
	s.program = s.words[min(s.pos, len(s.words)):]
	return s.bind()
}

// long passes an option of mpiexec on, with its value.
func (s *segment) long(word string) error {
	name, _, _ := strings.Cut(word, "=")
	if s.said == nil {
		s.said = make(map[string]bool)
	}
	s.said[strings.Replace(name, "--no-share-hosts", "--share-hosts", 1)] = true
	switch name {
	case "--help", "-help":
		s.help = true
	case "--ntasks", "--np":
		s.counted = true
	case "--strict-mem", "--membind", "--mem-bind", "--no-mem-bind":
		s.memory = true
	}
	end := min(s.pos+max(1, s.Takes(s.words[s.pos:])), len(s.words))
	s.args = append(s.args, s.words[s.pos:end]...)
	s.pos = end
	return nil
}

// letter reads one option of aprun's, whose value may be joined to a single letter.
func (s *segment) letter(word string) error {
	r, value := find(word)
	if r == nil {
		return &fault.Error{Text: "unknown option " + strconv.Quote(word), Remedy: "aprun --help lists the letters; options of mpiexec have two dashes here"}
	}
	if s.pos++; r.arg != "" && value == "" {
		if s.pos == len(s.words) {
			return &fault.Error{Text: fmt.Sprintf("-%s needs a value", r.letters), Remedy: fmt.Sprintf("write -%s %s", r.letters, r.arg)}
		}
		value = s.words[s.pos]
		s.pos++
	}
	if s.sized == "" && slices.Contains(granted, r.letters) {
		s.sized = r.letters
	}
	if err := r.translate(s, value); err != nil {
		return fmt.Errorf("-%s: %w", r.letters, err)
	}
	return nil
}

// find is the row of a word, and the value that is joined to it.
func find(word string) (r *letterRow, joined string) {
	name := strings.TrimPrefix(word, "-")
	for i := range rows {
		if rows[i].letters == name {
			return &rows[i], ""
		}
	}
	for i := range rows {
		rest, is := strings.CutPrefix(name, rows[i].letters)
		if len(rows[i].letters) == 1 && rows[i].arg != "" && is && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return &rows[i], rest
		}
	}
	return nil, ""
}

// translated is the segment in mpiexec's words, with the defaults of aprun.
func (s *segment) translated() []string {
	args := s.args
	if !s.counted && !s.batch && len(s.program) > 0 {
		args = append(args, "-n", "1")
	}
	if !s.strict && !s.memory && !s.said["--membind"] {
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

// bind says what -cc means, which depends on the depth of the segment: that of the first, if it says none itself.
func (s *segment) bind() error {
	if s.translator.segments == nil {
		s.translator.depth = s.depth
	}
	if s.depth == 0 {
		s.depth = max(1, s.translator.depth)
	}
	if s.binding == "" {
		return nil
	}
	s.bound = true
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
