package option

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
)

// This file joins what is said in several places (CLI-12). What a higher place says hides
// what lower ones say of the same; assignments of variables add up.
//
//	command line  >  -configfile  >  -gNAME of both  >  environment  >  configuration  >  built-in
//	  scan.go          here           scan.go, here     variables.go    config.go         where it is used

// A level is a place where options are given; lower ones are stronger.
type level int

const (
	commandLine level = iota
	configFile
	globalOnLine // the global form of an option of an app context: -gwdir
	globalInFile
	environment
	userConfig
)

// Sources are where options may stand beside the command line. The zero value has none.
type Sources struct {
	Environ []string
	Read    func(name string) (string, error) // a file as a whole; fs.ErrNotExist: there is none
	Trust   func(name string) error           // why a file that was read may not be obeyed without being named on the line; nil: all may
}

// expand puts the lines of a -configfile in the place of the section that names it. What
// the section says beside that belongs to the first line, and beats it.
func (t *Table) expand(sections []scanned, read func(string) (string, error)) (all []scanned, errs []error) {
	for _, s := range sections {
		i := slices.IndexFunc(s.given, func(g Given) bool { return g.Name == "configfile" })
		if i < 0 {
			all = append(all, s)
			continue
		}
		g := s.given[i]
		lines, err := t.sectionsOf(g, len(all)+1, read)
		if err == nil && len(s.program) > 0 {
			err = &fault.Error{Text: fmt.Sprintf("%s, and the program %s", g, Quote(s.program[0])), Remedy: "the file names the programs"}
		}
		if err != nil {
			s.lost = true
			all, errs = append(all, s), append(errs, err)
			continue
		}
		s.given = slices.DeleteFunc(s.given, func(g Given) bool { return g.Name == "configfile" })
		lines[0].given = append(s.given, lines[0].given...)
		lines[0].errs = append(s.errs, lines[0].errs...)
		all = append(all, lines...)
	}
	for i := range all { // sections after a file have moved
		for k := range all[i].given {
			all[i].given[k].Section = i + 1
		}
	}
	return all, errs
}

// sectionsOf reads the file that g names; number is that of its first section.
func (t *Table) sectionsOf(g Given, number int, read func(string) (string, error)) (sections []scanned, err error) {
	if read == nil {
		return nil, &fault.Error{Text: g.Spelled + " cannot be read here"}
	}
	text, err := read(g.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Spelled, err)
	}
	for line, faulty := range logicalLines(text) {
		w := words{number: number + len(sections), level: configFile, from: fmt.Sprintf("%s:%d", g.Value, line.number), args: line.words}
		s := scanned{from: w.from, lost: true}
		if faulty != nil {
			s.errs = []error{&fault.Error{Text: faulty.Error()}}
		} else {
			s = t.scan(w)
			s.forbid("help", s.help != nil)
			s.forbid("version", s.version)
			_, nested := origin(s.given, "configfile")
			s.forbid("configfile", nested)
		}
		sections = append(sections, s)
	}
	if len(sections) == 0 {
		return nil, &fault.Error{Text: fmt.Sprintf("%s has no section in it", g), Remedy: "write options, program and arguments, a section on each line"}
	}
	return sections, nil
}

// forbid notes that an option stands where it has no meaning.
func (s *scanned) forbid(option string, there bool) {
	if there {
		s.errs = append(s.errs, &fault.Error{Text: "-" + option + " has no meaning in a file", Remedy: "give it on the command line"})
	}
}

// A logicalLine is a line of a file with those that continue it.
type logicalLine struct {
	number int // of the first of them, from 1
	words  []string
}

// logicalLines yields the lines of a file that have words in them, split like a shell
// would, or what is wrong with them. Comments begin with #, at the start of a word.
func logicalLines(text string) func(yield func(logicalLine, error) bool) {
	return func(yield func(logicalLine, error) bool) {
		joined, first, number := "", 0, 0
		for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
			number++
			if joined == "" {
				first = number
			}
			line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
			if more, goesOn := strings.CutSuffix(line, `\`); goesOn && !strings.HasSuffix(more, `\`) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				joined += more + " "
				continue
			}
			if !yieldLine(first, joined+line, yield) {
				return
			}
			joined = ""
		}
		if joined != "" {
			yieldLine(first, joined, yield)
		}
	}
}

func yieldLine(number int, text string, yield func(logicalLine, error) bool) bool {
	split, err := splitWords(text, true)
	if err == nil && len(split) == 0 {
		return true
	}
	return yield(logicalLine{number, split}, err)
}

// located says in an error where it was found, if not on the command line.
func located(from string, err error) error {
	var syntax *hostlist.SyntaxError
	harmless, ok := err.(ignorable)
	if ok {
		return ignorable{&fault.Error{Text: from + ": " + harmless.of.Text, Remedy: harmless.of.Remedy}}
	}
	switch usage, ok := err.(*fault.Error); {
	case from == "":
	case ok:
		return &fault.Error{Text: from + ": " + usage.Text, Remedy: usage.Remedy}
	case errors.As(err, &syntax):
		syntax.File = from + ": " + syntax.File
	default:
		return fmt.Errorf("%s: %w", from, err)
	}
	return err
}

// byLevel puts what is said in a higher place first.
func byLevel(given []Given) []Given {
	slices.SortStableFunc(given, func(a, b Given) int { return cmp.Compare(a.level, b.level) })
	return given
}
