package option

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"remshell/fault"
	"remshell/job"
)

// configPath is the user's configuration, and whether the user named it. It is empty if
// there is no home.
func configPath(environ []string) (file string, named bool) {
	if file, _ := job.Lookup(environ, "MPIEXEC_CONFIG"); file != "" {
		return file, true
	}
	if dir, _ := job.Lookup(environ, "XDG_CONFIG_HOME"); path.IsAbs(dir) {
		return path.Join(dir, "mpiexec/config"), false
	}
	if home, _ := job.Lookup(environ, "HOME"); home != "" {
		return path.Join(home, ".config/mpiexec/config"), false
	}
	return "", false
}

// readConfig reads the user's configuration: an option on each line, with dashes or
// without, "name value" or "name = value".
func (b *defaults) readConfig(from Sources) {
	file, named := configPath(from.Environ)
	if file == "" || from.Read == nil {
		return
	}
	text, err := from.Read(file)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && !named:
		return
	case err != nil && named:
		b.errs = append(b.errs, fmt.Errorf("MPIEXEC_CONFIG: %w", err))
		return
	case err != nil:
		b.errs = append(b.errs, fmt.Errorf("configuration: %w", err))
		return
	}
	if from.Trust != nil {
		if err := from.Trust(file); err != nil { // it is code (TRUST-27)
			b.errs = append(b.errs, Untrusted(err, "what is in it", " with MPIEXEC_CONFIG"))
			return
		}
	}
	for line, err := range logicalLines(text) {
		where := fmt.Sprintf("%s:%d", file, line.number)
		if err != nil {
			b.errs = append(b.errs, &fault.Error{Text: where + ": " + err.Error()})
			continue
		}
		b.configLine(where, line.words)
	}
}

// Untrusted refuses a file that is code, if somebody else decides what is in it, as why says. what of it is code; with is how
// to name a copy.
func Untrusted(why error, what, with string) error {
	return &fault.Error{Text: fmt.Sprintf("not started: %v, and %s could run any program as you", why, what), Remedy: fault.Hint(why) + with}
}

// configLine reads one line.
func (b *defaults) configLine(where string, args []string) {
	if !strings.HasPrefix(args[0], "-") {
		args[0] = "--" + args[0]
	}
	if len(args) > 2 && args[1] == "=" {
		args = append([]string{args[0] + "=" + args[2]}, args[3:]...)
	}
	s := b.scan(words{args: args, level: userConfig, from: where})
	if len(s.program) > 0 {
		s.errs = append(s.errs, &fault.Error{Text: fmt.Sprintf("%s is too much", Quote(s.program[0])), Remedy: "write one option on each line; quote a value with blanks"})
	}
	if s.help != nil || s.version {
		s.forbid("help", true)
	}
	for _, g := range s.given {
		if g.peers == "-" {
			s.forbid(g.Name, true)
		}
	}
	for _, err := range s.errs {
		b.errs = append(b.errs, located(where, err))
	}
	for _, text := range s.notes {
		b.warnings = append(b.warnings, where+": "+text)
	}
	for _, g := range s.given {
		if !b.said[g.Name] {
			b.given = append(b.given, g)
		}
	}
}
