package option

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/usererr"
)

// This file joins what is said in several places (CLI-12). What a higher place says hides
// what lower ones say of the same; assignments of variables add up.
//
//	command line  >  -configfile  >  -gNAME of both  >  environment  >  configuration  >  built-in
//	  scan.go          here           scan.go, here     variables.go    config.go         where it is used

// A precedence is a place where options are given; lower ones are stronger.
type precedence int

const (
	fromCommandLine precedence = iota
	fromConfigFile
	globalOnLine // the global form of an option of an app context: -gwdir
	globalInFile
	fromEnvironment
	fromUserConfig
)

// Sources are where options may stand beside the command line. The zero value has none.
type Sources struct {
	Environ    []string
	Read       func(name string) (string, error) // a file as a whole; fs.ErrNotExist: there is none
	CheckTrust func(name string) error           // why a file that was read may not be obeyed without being named on the line; nil: all may
}

// expandConfigFiles puts the lines of a -configfile in the place of the section that names it. What
// the section says beside that belongs to the first line, and beats it.
func (t *Table) expandConfigFiles(sections []scannedApp, read func(string) (string, error)) (all []scannedApp, errs []error) {
	for _, s := range sections {
		i := slices.IndexFunc(s.given, func(g GivenOption) bool { return g.Name == "configfile" })
		if i < 0 {
			all = append(all, s)
			continue
		}
		g := s.given[i]
		lines, err := t.readConfigFile(g, len(all)+1, read)
		if err == nil && len(s.program) > 0 {
			err = &usererr.Error{Text: fmt.Sprintf("%s, and the program %s", g, ShellQuote(s.program[0])), Remedy: "the file names the programs"}
		}
		if err != nil {
			s.unparsable = true
			all, errs = append(all, s), append(errs, err)
			continue
		}
		s.given = slices.DeleteFunc(s.given, func(g GivenOption) bool { return g.Name == "configfile" })
		lines[0].given = append(s.given, lines[0].given...)
		lines[0].errs = append(s.errs, lines[0].errs...)
		all = append(all, lines...)
	}
	for i := range all { // sections after a file have moved
		for k := range all[i].given {
			all[i].given[k].AppNumber = i + 1
		}
	}
	return all, errs
}

// readConfigFile reads the file that g names; number is that of its first section.
func (t *Table) readConfigFile(g GivenOption, number int, read func(string) (string, error)) (sections []scannedApp, err error) {
	if read == nil {
		return nil, &usererr.Error{Text: g.Spelled + " cannot be read here"}
	}
	text, err := read(g.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Spelled, err)
	}
	for line, faulty := range logicalLines(text) {
		w := appWords{number: number + len(sections), precedence: fromConfigFile, from: fmt.Sprintf("%s:%d", g.Value, line.number), args: line.words}
		s := scannedApp{from: w.from, unparsable: true}
		if faulty != nil {
			s.errs = []error{&usererr.Error{Text: faulty.Error()}}
		} else {
			s = t.scan(w)
			s.refuseOption("help", s.help != nil)
			s.refuseOption("version", s.version)
			_, nested := originOf(s.given, "configfile")
			s.refuseOption("configfile", nested)
		}
		sections = append(sections, s)
	}
	if len(sections) == 0 {
		return nil, &usererr.Error{Text: fmt.Sprintf("%s has no app context in it", g), Remedy: "write options, program and arguments, an app context on each line"}
	}
	return sections, nil
}

// refuseOption notes that an option stands where it has no meaning.
func (s *scannedApp) refuseOption(option string, there bool) {
	if there {
		s.errs = append(s.errs, &usererr.Error{Text: "-" + option + " has no meaning in a file", Remedy: "give it on the command line"})
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

// withSource says in an error where it was found, if not on the command line.
func withSource(from string, err error) error {
	var syntax *hostlist.SyntaxError
	harmless, ok := err.(lenientError)
	if ok {
		return lenientError{&usererr.Error{Text: from + ": " + harmless.err.Text, Remedy: harmless.err.Remedy}}
	}
	switch usage, ok := err.(*usererr.Error); {
	case from == "":
	case ok:
		return &usererr.Error{Text: from + ": " + usage.Text, Remedy: usage.Remedy}
	case errors.As(err, &syntax):
		syntax.File = from + ": " + syntax.File
	default:
		return fmt.Errorf("%s: %w", from, err)
	}
	return err
}

// sortByPrecedence puts what is said in a higher place first.
func sortByPrecedence(given []GivenOption) []GivenOption {
	slices.SortStableFunc(given, func(a, b GivenOption) int { return cmp.Compare(a.precedence, b.precedence) })
	return given
}
