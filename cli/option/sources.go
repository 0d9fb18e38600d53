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

// This file merges the levels at which options can be given (rule CLI-12). A higher level hides the same
// option of lower levels; assignments of variables add up.
//
//	command line  >  -configfile  >  -gNAME of both  >  environment  >  configuration  >  built-in
//	  scan.go          here           scan.go, here     variables.go    config.go         where it is used

// A precedence says where an option was given, such as on the command line or in the environment. Smaller
// numbers take precedence.
type precedence int

const (
	fromCommandLine precedence = iota
	fromConfigFile
	globalOnLine // global form on the command line: -gwdir
	globalInFile
	fromEnvironment
	fromUserConfig
)

// Sources are the inputs other than the command line: the environment and files. The zero value contains no inputs.
type Sources struct {
	Environ    []string
	Read       func(name string) (string, error) // reads a whole file; returns fs.ErrNotExist if there is none; may be nil
	CheckTrust func(name string) error           // error if the default configuration file may have been written by somebody else; nil: no check
}

// expandConfigFiles replaces an app context that has a -configfile by the app contexts in the file. Options that are
// given together with -configfile apply to the file's first line and take precedence over it.
func (t *Table) expandConfigFiles(apps []scannedApp, read func(string) (string, error)) (all []scannedApp, errs []error) {
	for _, s := range apps {
		i := slices.IndexFunc(s.given, func(g GivenOption) bool { return g.Name == "configfile" })
		if i < 0 {
			all = append(all, s)
			continue
		}
		g := s.given[i]
		lines, err := t.readConfigFile(g, len(all)+1, read)
		if err == nil && len(s.program) > 0 {
			err = &usererr.Error{Text: fmt.Sprintf("%s cannot be used with the program %s", g, ShellQuote(s.program[0])), Remedy: "leave out the program: the file contains the programs"}
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
	for i := range all { // numbers after a file have changed
		for k := range all[i].given {
			all[i].given[k].AppNumber = i + 1
		}
	}
	return all, errs
}

// readConfigFile reads the file that option g names. number is the number of the file's first app
// context.
func (t *Table) readConfigFile(g GivenOption, number int, read func(string) (string, error)) (apps []scannedApp, err error) {
	if read == nil {
		return nil, &usererr.Error{Text: g.Spelled + " cannot be used in MPI_Comm_spawn, which reads no such files"}
	}
	text, err := read(g.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Spelled, err)
	}
	for line, faulty := range logicalLines(text) {
		w := appWords{number: number + len(apps), precedence: fromConfigFile, from: fmt.Sprintf("%s:%d", g.Value, line.number), args: line.words}
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
		apps = append(apps, s)
	}
	if len(apps) == 0 {
		return nil, &usererr.Error{Text: fmt.Sprintf("%s contains no app context", g), Remedy: "write one app context on each line: options, program and arguments"}
	}
	return apps, nil
}

// refuseOption records an error which says that the option is not allowed in a -configfile. It does nothing if isGiven
// is false, which means that the file does not contain the option.
func (s *scannedApp) refuseOption(option string, isGiven bool) {
	if isGiven {
		s.errs = append(s.errs, &usererr.Error{Text: "-" + option + " cannot be used in a file of options", Remedy: "give the option on the command line"})
	}
}

// A logicalLine is a line of a file, joined with its continuation lines.
type logicalLine struct {
	number int // of its first line, from 1
	words  []string
}

// logicalLines iterates over the lines of a file that are not empty. It yields each line split into words as a shell
// does, or an error if the line is invalid. A comment begins with # at the start of a word.
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

// withSource adds to an error the file, line or variable in which it occurred. source is empty for the
// command line; then err is returned unchanged.
func withSource(source string, err error) error {
	var syntax *hostlist.SyntaxError
	harmless, ok := err.(lenientError)
	if ok {
		return lenientError{&usererr.Error{Text: source + ": " + harmless.err.Text, Remedy: harmless.err.Remedy}}
	}
	switch usage, ok := err.(*usererr.Error); {
	case source == "":
	case ok:
		return &usererr.Error{Text: source + ": " + usage.Text, Remedy: usage.Remedy}
	case errors.As(err, &syntax):
		syntax.File = source + ": " + syntax.File
	default:
		return fmt.Errorf("%s: %w", source, err)
	}
	return err
}

// sortByPrecedence sorts options in place, so that options with higher precedence come first. It returns options.
func sortByPrecedence(options []GivenOption) []GivenOption {
	slices.SortStableFunc(options, func(a, b GivenOption) int { return cmp.Compare(a.precedence, b.precedence) })
	return options
}
