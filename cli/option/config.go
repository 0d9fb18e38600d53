package option

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"remshell/job"
	"remshell/usererr"
)

// configPath returns the path of the user's configuration file. named is true if MPIEXEC_CONFIG names the
// file. The path is empty if there is no home directory.
func configPath(environ []string) (file string, named bool) {
	if file, _ := job.LookupEnv(environ, "MPIEXEC_CONFIG"); file != "" {
		return file, true
	}
	if dir, _ := job.LookupEnv(environ, "XDG_CONFIG_HOME"); path.IsAbs(dir) {
		return path.Join(dir, "mpiexec/config"), false
	}
	if home, _ := job.LookupEnv(environ, "HOME"); home != "" {
		return path.Join(home, ".config/mpiexec/config"), false
	}
	return "", false
}

// readConfig reads the user's configuration file. The file contains one option on each line, with or without dashes:
// "name value" or "name = value".
func (b *defaultOptions) readConfig(sources Sources) {
	file, named := configPath(sources.Environ)
	if file == "" || sources.Read == nil {
		return
	}
	text, err := sources.Read(file)
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
	if sources.CheckTrust != nil {
		if err := sources.CheckTrust(file); err != nil { // options can run any program (TRUST-27)
			b.errs = append(b.errs, UntrustedError(err, "", "MPIEXEC_CONFIG"))
			return
		}
	}
	if path.Base(file) == "parastation.conf" {
		b.errs = append(b.errs, &usererr.Error{Text: file + " is a configuration file of ParaStation, not of mpiexec; its nodes belong in a cluster file", Remedy: "to see the equivalent keys of a cluster file, run: mpiexec --cluster " + file})
		return
	}
	for line, err := range logicalLines(text) {
		where := fmt.Sprintf("%s:%d", file, line.number)
		if err != nil {
			b.errs = append(b.errs, &usererr.Error{Text: where + ": " + err.Error()})
			continue
		}
		b.readConfigLine(where, line.words)
	}
}

// UntrustedError returns the error for a file that mpiexec does not use: the file can make mpiexec run programs, and
// another user could change it. cause says why another user could change the file. key is the dangerous key of the file, or
// "" if the whole content is dangerous. option, if not empty, is the option with which the user can name a copy of the file.
func UntrustedError(cause error, key, option string) error {
	text, remedy := fmt.Sprintf("%v, so others could use it to run any program as you", cause), usererr.Hint(cause)
	if key != "" {
		text = fmt.Sprintf("%v, so others could use %s in it to run any program as you", cause, key)
	}
	if option != "" {
		remedy += " with " + option
	}
	return &usererr.Error{Text: text, Remedy: remedy}
}

// readConfigLine parses one line of the configuration file. location is the file and line number.
func (b *defaultOptions) readConfigLine(location string, args []string) {
	if !strings.HasPrefix(args[0], "-") {
		args[0] = "--" + args[0]
	}
	if len(args) > 2 && args[1] == "=" {
		args = append([]string{args[0] + "=" + args[2]}, args[3:]...)
	}
	if args = b.withoutSwitchValue(args); args == nil {
		return
	}
	s := b.scan(appWords{args: args, precedence: fromUserConfig, from: location})
	if len(s.program) > 0 {
		s.errs = append(s.errs, &usererr.Error{Text: fmt.Sprintf("%s is not an option", ShellQuote(s.program[0])), Remedy: "write one option on each line, with two dashes; put values with blanks in quotes"})
	}
	if s.help != nil || s.version {
		s.refuseOption("help", true)
	}
	for _, g := range s.given {
		if g.foreignVariables == "-" {
			s.refuseOption(g.Name, true)
		}
	}
	for _, err := range s.errs {
		b.errs = append(b.errs, withSource(location, err))
	}
	for _, text := range s.notes {
		b.warnings = append(b.warnings, location+": "+text)
	}
	for _, g := range s.given {
		if !b.decided[g.Name] {
			b.given = append(b.given, g)
		}
	}
}

// withoutSwitchValue replaces a switch that has a value, such as "--pin=no" or "--pin no", by a switch
// without one. If the value turns the switch off, it returns the opposite option ("--no-pin"), or nil if
// there is none. It returns other words unchanged.
func (t *Table) withoutSwitchValue(args []string) []string {
	name, value, attached := strings.Cut(args[0], "=")
	if !attached && len(args) == 2 {
		value = args[1]
	} else if len(args) > 1 {
		return args
	}
	m, known := t.findSpelling(name)
	on, is := parseSwitch(value)
	switch {
	case !known || !is || !m.Preset && m.valueForm != "none":
		return args
	case on:
		return []string{name}
	}
	for _, s := range m.OtherSpellings {
		if !m.Preset && s.Preset && s.Value == "no" {
			return []string{s.Dashed}
		}
	}
	return nil
}
