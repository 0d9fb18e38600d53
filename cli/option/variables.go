package option

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"remshell/format"
	"remshell/hostlist"
	"remshell/usererr"
)

// This file reads options from the environment: each long option as MPIEXEC_NAME, and the variables of other
// launchers in the table (cli.md section 3). Variables with the tag "read" are read by package psi and others.

// A defaultOptions collects the options that the environment and the user's configuration set.
type defaultOptions struct {
	given    []GivenOption
	errs     []error
	warnings []string

	*Table
	decided         map[string]bool // options that a higher level has given
	unusedVariables []string        // variables of other launchers without an equivalent
}

// nonOptionVariables are mpiexec's own variables that do not set an option.
var nonOptionVariables = []string{"MPIEXEC_CONFIG", "MPIEXEC_ERROR_CODE", "MPIEXEC_TEST_MAIN"}

// readDefaults reads options from the environment and from the user's configuration file. It skips options
// that the app contexts set themselves.
func (t *Table) readDefaults(apps []scannedApp, sources Sources) defaultOptions {
	b := defaultOptions{Table: t}
	if sources.Environ == nil {
		return b
	}
	b.decided = decidedOptions(apps)
	own, peers := variables(sources.Environ)
	b.noteReadElsewhere(peers, "nodes") // it takes precedence over other lists of hosts (cli.md section 3)
	b.readOwn(own)
	if len(peers) > 0 {
		b.readForeign(peers)
		b.reportUnusedVariables(peers)
	}
	for _, o := range t.options {
		b.noteReadElsewhere(append(peers, own...), o.Name)
	}
	b.readConfig(sources)
	return b
}

// decidedOptions returns the options for which defaults are irrelevant, because every app context sets the option or an
// alternative to it.
func decidedOptions(apps []scannedApp) map[string]bool {
	decided := make(map[string]bool)
	for i, s := range apps {
		for _, g := range s.given {
			if g.Scope != PerJob && i > 0 {
				continue // other app contexts may lack it
			}
			if g.Scope != PerApp || len(apps) == 1 {
				decided[g.Name] = !g.addsUp
			}
			for _, rival := range g.rivals() {
				decided[rival.Name] = decided[rival.Name] || decided[g.Name]
			}
		}
	}
	return decided
}

// reportUnusedVariables warns about variables of other launchers that have no equivalent option but would
// change where or how ranks run.
func (b *defaultOptions) reportUnusedVariables(peers []variable) {
	for _, v := range peers {
		switch key := parameterKey(v.name); {
		case key != "":
			if _, known := b.optionForParameter(key); known || !affectsRanks(key) {
				continue
			}
		case strings.HasPrefix(v.name, "I_MPI_PIN_RESPECT_"): // always true here
			if on, _ := parseSwitch(v.value); on {
				continue
			}
		case !strings.HasPrefix(v.name, "I_MPI_PIN_"), b.isForeign(v.name):
			continue
		}
		if v.value != "" {
			b.unusedVariables = append(b.unusedVariables, v.name+"="+v.value)
		}
	}
	if len(b.unusedVariables) > 0 {
		b.warnings = append(b.warnings, noEquivalent(b.unusedVariables))
	}
}

// A variable is an environment variable that may set an option.
type variable struct{ name, value string }

// variables returns mpiexec's own variables (own) and the variables of other launchers (peers), in the order of
// environ. Inside a rank it leaves out Open MPI's parameters, because Open MPI's launcher has set them there, and not
// the user.
func variables(environ []string) (own, peers []variable) {
	var parameters []variable
	inside := false
	for _, assignment := range environ {
		if c := assignment[:min(1, len(assignment))]; c != "M" && c != "H" && c != "I" && c != "P" && c != "W" && c != "O" && c != "_" {
			continue
		}
		name, value, _ := strings.Cut(assignment, "=")
		v := variable{name, value}
		switch {
		case strings.HasPrefix(name, "MPIEXEC_"):
			if slices.Contains(nonOptionVariables, name) {
				continue
			}
			own = append(own, v)
			peers = append(peers, v) // MPIEXEC_STDIN_DEST
		case strings.HasPrefix(name, "HYDRA_"), strings.HasPrefix(name, "I_MPI_"), strings.HasPrefix(name, "PSI_"),
			strings.HasPrefix(name, "__PSI_"), name == "WCOLL", name == "OMP_NUM_THREADS":
			peers = append(peers, v)
		case parameterKey(name) != "":
			parameters = append(parameters, v)
		case name == "OMPI_COMM_WORLD_RANK":
			inside = true
		}
	}
	if !inside {
		peers = append(peers, parameters...)
	}
	return own, peers
}

// noteReadElsewhere checks whether another package reads one of the defined variables. If so, variables and files of
// lower precedence cannot set the option any more.
func (b *defaultOptions) noteReadElsewhere(defined []variable, option string) {
	for _, v := range defined {
		if slices.Contains(b.names[option].readVariables, v.name) {
			b.markDecided(option)
		}
	}
}

// markDecided records that an option is set, so that sources of lower precedence do not set it or its
// alternatives.
func (b *defaultOptions) markDecided(option string) {
	b.decided[option] = true
	for _, rival := range b.names[option].rivals() {
		b.decided[rival.Name] = true
	}
}

// readOwn reads mpiexec's own variables, whose names begin with MPIEXEC_.
func (b *defaultOptions) readOwn(own []variable) {
	var read []string
	inside := slices.ContainsFunc(own, func(v variable) bool { return v.name == "MPIEXEC_JOBID" })
	for _, v := range own {
		name := strings.TrimPrefix(v.name, "MPIEXEC_")
		m, known := b.findName(normalize(name))
		switch {
		case len(name) < 2 || name != strings.ToUpper(name) || b.isForeign(v.name):
		case slices.Contains(format.RankVariables, v.name): // set by us in the environment of ranks
			if known && !inside && v.value != "" {
				b.warnings = append(b.warnings, fmt.Sprintf("the variable %s is ignored, because mpiexec sets it for ranks; to set the option, use %s", v.name, ownVariable(m.Option)))
			}
		case inside && slices.Contains(format.JobVariables, v.name):
		case !known && RemovedError(normalize(name)) != nil:
			b.errs = append(b.errs, withSource(v.name, removedVariableError(normalize(name), v.value)))
		case !known || m.foreignVariables == "-":
			if near := b.suggest(normalize(name)); near != "" && !known {
				b.warnings = append(b.warnings, fmt.Sprintf("the variable %s is ignored: mpiexec has no such option%s", v.name, near))
			}
		case slices.Contains(m.readVariables, v.name) || b.decided[m.Name]:
		default:
			b.takeVariable(m, v, v.value)
			read = append(read, m.Name)
		}
	}
	for _, name := range read {
		b.markDecided(name)
	}
}

// isForeign reports whether the table lists name as a variable of another launcher.
func (b *defaultOptions) isForeign(name string) bool {
	return slices.ContainsFunc(b.options, func(o *Option) bool { return slices.Contains(strings.Fields(o.foreignVariables), name) })
}

// readForeign reads the variables of other launchers. If several of them set the same option, it uses the
// first, or all if the option collects values.
func (b *defaultOptions) readForeign(peers []variable) {
	for _, o := range b.options {
		if o.foreignVariables == "" && o.mcaParameters == nil || o.foreignVariables == "-" || b.decided[o.Name] && !o.addsUp {
			continue
		}
		for _, name := range o.foreignNames() {
			i := slices.IndexFunc(peers, func(v variable) bool { return v.name == name })
			if i < 0 || peers[i].value == "" {
				continue
			}
			text, err := translateValue(peers[i])
			switch {
			case errors.Is(err, errNoEquivalent):
				b.unusedVariables = append(b.unusedVariables, name+"="+peers[i].value)
				continue
			case err != nil:
				b.errs = append(b.errs, err)
			case text == "" && (parameterKey(name) != "" || strings.HasPrefix(name, "I_MPI_PIN")):
				continue // no setting; look at the next variable
			}
			b.takeVariable(namedOption{Option: o, Spelling: Spelling{Dashed: o.Dashed}}, peers[i], text)
			b.markDecided(o.Name)
			if !o.addsUp {
				break
			}
		}
	}
}

// foreignNames returns the variables of other launchers that set the option, in order of precedence.
func (o *Option) foreignNames() []string {
	names := strings.Fields(o.foreignVariables)
	for _, key := range o.mcaParameters {
		for _, prefix := range parameterPrefixes {
			names = append(names, prefix+key)
		}
	}
	return names
}

// translateValue converts the value of another launcher's variable to a value of the corresponding option of
// mpiexec. It returns "" if the variable has no effect.
func translateValue(v variable) (string, error) {
	if key := parameterKey(v.name); key != "" {
		return parameterValue(key, v.value)
	}
	if strings.HasPrefix(v.name, "I_MPI_PIN") {
		return pinValue(v.name, v.value)
	}
	switch v.name {
	case "HYDRA_ENV":
		if word, known := map[string]string{"all": "*", "none": emptyValue}[strings.ToLower(v.value)]; known {
			return word, nil
		}
		return "", &usererr.Error{Text: fmt.Sprintf("HYDRA_ENV: %q is not one of all, none", v.value)}
	case "HYDRA_LAUNCHER_AUTOFORK": // our option is the negation
		if on, known := parseSwitch(v.value); known {
			return strconv.Itoa(map[bool]int{true: 0, false: 1}[on]), nil
		}
	case "I_MPI_PERHOST":
		if v.value == "all" || v.value == "allcores" {
			return "", nil
		}
	case "I_MPI_JOB_TIMEOUT", "PSI_MAXTIME":
		if isZeroNumber(v.value) {
			return "", nil
		}
	}
	return v.value, nil
}

// emptyValue represents a value that the user has deliberately set to the empty string.
const emptyValue = "\x00"

// takeVariable stores the option that a variable sets, or records an error. An empty variable has no effect.
func (b *defaultOptions) takeVariable(m namedOption, v variable, text string) {
	if text == "" {
		return
	}
	value, on := strings.TrimSuffix(text, emptyValue), true
	if m.Preset || m.impliedValue != "" {
		value, on = m.switchValue(value)
	}
	if !on {
		return
	}
	if m.Preset || m.field.Type.Kind() == reflect.Bool {
		if err := RemovedError(normalize(m.Spelling.Dashed) + "=" + text); err != nil {
			b.errs = append(b.errs, withSource(v.name, err))
			return
		}
		if on, _ := parseSwitch(text); !on {
			b.errs = append(b.errs, &usererr.Error{Text: fmt.Sprintf("%s: %q is not allowed; the value must be 1 or 0", v.name, text)})
			return
		}
	}
	g := GivenOption{Option: m.Option, Spelled: v.name, Value: value, precedence: fromEnvironment, source: v.name}
	if g.valueForm == "pair" && !strings.Contains(value, "=") {
		b.errs = append(b.errs, &usererr.Error{Text: fmt.Sprintf("%s: %q is not NAME=VALUE", v.name, value)})
		return
	}
	if m.Form != "" {
		if err := m.checkText(value); err != nil {
			b.errs = append(b.errs, &usererr.Error{Text: fmt.Sprintf("%s: %v", v.name, err)})
			return
		}
		g.typed, g.Value = value, m.value(value)
	}
	b.keepOption(g)
}

// keepOption decodes the value of option g and stores the option.
func (b *defaultOptions) keepOption(g GivenOption) {
	g, kept, note := b.translateParameter(g)
	if note != "" {
		b.warnings = append(b.warnings, note)
	}
	if !kept {
		return
	}
	var err error
	g.decoded, err = b.decode(g.Option, g.Value)
	if err == nil {
		b.given = append(b.given, g)
		return
	}
	for _, one := range usererr.Split(err) {
		var syntax *hostlist.SyntaxError
		if errors.As(one, &syntax) {
			syntax.File = g.source
		} else {
			one = withSource(g.source, &usererr.Error{Text: one.Error(), Remedy: usererr.Hint(one)})
		}
		b.errs = append(b.errs, one)
	}
}

// switchValue parses the value of a switch: 1 or 0, yes or no, on or off, or one of the keywords that the option
// allows.
func (m namedOption) switchValue(text string) (value string, isOn bool) {
	of, known := parseSwitch(text)
	switch {
	case m.Preset:
		return m.Value, of || !known
	case !known || slices.Contains(m.Words, text) || m.valueForm != "none" && m.Words == nil:
		return text, true
	case !of && slices.Contains(m.Words, "no"):
		return "no", true
	case of && m.field.Type.Kind().String() == "int" && text != "1":
		return text, true
	}
	return m.impliedValue, of
}

// parseSwitch parses a word that means on or off. known is false for any other word.
func parseSwitch(text string) (isOn, known bool) {
	switch strings.ToLower(text) {
	case "1", "yes", "y", "true", "on", "enable":
		return true, true
	case "0", "no", "n", "false", "off", "disable":
		return false, true
	}
	return false, false
}
