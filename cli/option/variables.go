package option

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/show"
)

// This file reads options from the environment: every long option as MPIEXEC_NAME, and
// the variables of other launchers that the table lists (cli.md section 3). Those that
// package psi and others read themselves stand in elsewhere.

// defaults are what is said beside the command line and its files.
type defaults struct {
	given    []Given
	errs     []error
	warnings []string

	*Table
	said    map[string]bool // options of which a higher place has spoken
	unheard []string        // variables of other launchers that have no equivalent
}

// others are variables of ours that are no options.
var others = []string{"MPIEXEC_CONFIG", "MPIEXEC_ERROR_CODE", "MPIEXEC_TEST_MAIN"}

// defaults reads what the environment and the user's configuration say that the sections
// do not.
func (t *Table) defaults(sections []scanned, from Sources) defaults {
	b := defaults{Table: t}
	if from.Environ == nil {
		return b
	}
	b.said = spoken(sections)
	own, peers := variables(from.Environ)
	b.readElsewhere(peers, "nodes") // the first of the lists of hosts (cli.md section 3)
	b.readOwn(own)
	if len(peers) > 0 {
		b.readPeers(peers)
		b.readRest(peers)
	}
	for _, o := range t.options {
		b.readElsewhere(append(peers, own...), o.Name)
	}
	b.readConfig(from)
	return b
}

// spoken lists the options of which nothing more need be read, as every section has them
// or a rival of them.
func spoken(sections []scanned) map[string]bool {
	said := make(map[string]bool)
	for i, s := range sections {
		for _, g := range s.given {
			if g.Scope != PerJob && i > 0 {
				continue // the others may want it
			}
			if g.Scope != PerSection || len(sections) == 1 {
				said[g.Name] = !g.sums
			}
			for _, rival := range g.rivals() {
				said[rival.Name] = said[rival.Name] || said[g.Name]
			}
		}
	}
	return said
}

// readRest reports variables of other launchers that would change where or how ranks run, and for which there is
// no option.
func (b *defaults) readRest(peers []variable) {
	for _, v := range peers {
		switch key := parameterKey(v.name); {
		case key != "":
			if _, known := b.byParameter(key); known || !affectsRanks(key) {
				continue
			}
		case strings.HasPrefix(v.name, "I_MPI_PIN_RESPECT_"): // we always do
			if on, _ := truth(v.value); on {
				continue
			}
		case !strings.HasPrefix(v.name, "I_MPI_PIN_"), b.isPeer(v.name):
			continue
		}
		if v.value != "" {
			b.unheard = append(b.unheard, v.name+"="+v.value)
		}
	}
	if len(b.unheard) > 0 {
		b.warnings = append(b.warnings, noEquivalent(b.unheard))
	}
}

// A variable is one of the environment that may mean an option.
type variable struct{ name, value string }

// variables finds those of ours and of other launchers, the last of each name. In a rank the parameters of Open MPI are
// those of its own launcher.
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
			if slices.Contains(others, name) {
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

func (b *defaults) readElsewhere(defined []variable, option string) {
	for _, v := range defined {
		if slices.Contains(b.names[option].read, v.name) {
			b.speak(option)
		}
	}
}

// speak notes that what lower places say of an option does not count.
func (b *defaults) speak(option string) {
	b.said[option] = true
	for _, rival := range b.names[option].rivals() {
		b.said[rival.Name] = true
	}
}

// readOwn reads MPIEXEC_NAME.
func (b *defaults) readOwn(own []variable) {
	var read []string
	inside := slices.ContainsFunc(own, func(v variable) bool { return v.name == "MPIEXEC_JOBID" })
	for _, v := range own {
		name := strings.TrimPrefix(v.name, "MPIEXEC_")
		m, known := b.lookup(normalize(name))
		switch {
		case len(name) < 2 || name != strings.ToUpper(name) || b.isPeer(v.name):
		case slices.Contains(show.Told, v.name): // what a rank is told of itself
			if known && !inside && v.value != "" {
				b.warnings = append(b.warnings, fmt.Sprintf("%s tells a rank about itself, and is no option; ignored; for the option use %s", v.name, ownVariable(m.Option)))
			}
		case inside && slices.Contains(show.ToldOfJob, v.name):
		case !known && Removed(normalize(name)) != nil:
			b.errs = append(b.errs, located(v.name, Removed(normalize(name))))
		case !known || m.peers == "-":
			if near := b.near(normalize(name)); near != "" && !known {
				b.warnings = append(b.warnings, fmt.Sprintf("%s is no option%s; ignored", v.name, near))
			}
		case slices.Contains(m.read, v.name) || b.said[m.Name]:
		default:
			b.take(m, v, v.value)
			read = append(read, m.Name)
		}
	}
	for _, name := range read {
		b.speak(name)
	}
}

// isPeer reports whether another launcher's variable has this name.
func (b *defaults) isPeer(name string) bool {
	return slices.ContainsFunc(b.options, func(o *Option) bool { return slices.Contains(strings.Fields(o.peers), name) })
}

// readPeers reads the variables of other launchers: of each option the first, or all if they add up.
func (b *defaults) readPeers(peers []variable) {
	for _, o := range b.options {
		if o.peers == "" && o.mca == nil || o.peers == "-" || b.said[o.Name] && !o.sums {
			continue
		}
		for _, name := range o.peerNames() {
			i := slices.IndexFunc(peers, func(v variable) bool { return v.name == name })
			if i < 0 || peers[i].value == "" {
				continue
			}
			text, err := inOurWords(peers[i])
			switch {
			case errors.Is(err, errNoEquivalent):
				b.unheard = append(b.unheard, name+"="+peers[i].value)
				continue
			case err != nil:
				b.errs = append(b.errs, err)
			case text == "" && (parameterKey(name) != "" || strings.HasPrefix(name, "I_MPI_PIN")):
				continue // it says nothing, and others may
			}
			b.take(meaning{Option: o, Spelling: Spelling{Dashed: o.Dashed}}, peers[i], text)
			b.speak(o.Name)
			if !o.sums {
				break
			}
		}
	}
}

// peerNames lists the variables of other launchers that mean the option, the first that is there first.
func (o *Option) peerNames() []string {
	names := strings.Fields(o.peers)
	for _, key := range o.mca {
		for _, prefix := range parameterPrefixes {
			names = append(names, prefix+key)
		}
	}
	return names
}

// inOurWords is the value of another launcher's variable as the option has it; empty if
// it says nothing.
func inOurWords(v variable) (string, error) {
	if key := parameterKey(v.name); key != "" {
		return parameterValue(key, v.value)
	}
	if strings.HasPrefix(v.name, "I_MPI_PIN") {
		return pinValue(v.name, v.value)
	}
	switch v.name {
	case "HYDRA_ENV":
		if word, known := map[string]string{"all": "*", "none": nothing}[strings.ToLower(v.value)]; known {
			return word, nil
		}
		return "", &fault.Error{Text: fmt.Sprintf("HYDRA_ENV: %q is not one of all, none", v.value)}
	case "HYDRA_LAUNCHER_AUTOFORK": // ours switches it off
		if on, known := truth(v.value); known {
			return strconv.Itoa(map[bool]int{true: 0, false: 1}[on]), nil
		}
	case "I_MPI_PERHOST":
		if v.value == "all" || v.value == "allcores" {
			return "", nil
		}
	case "I_MPI_JOB_TIMEOUT", "PSI_MAXTIME":
		if isZero(v.value) {
			return "", nil
		}
	}
	return v.value, nil
}

// nothing is the value that is empty on purpose.
const nothing = "\x00"

// take keeps an option that a variable gives, or what is wrong with it. An empty
// variable gives none.
func (b *defaults) take(m meaning, v variable, text string) {
	if text == "" {
		return
	}
	value, on := strings.TrimSuffix(text, nothing), true
	if m.Preset || m.implied != "" {
		value, on = m.switched(value)
	}
	if !on {
		return
	}
	if m.Preset || m.field.Type.Kind() == reflect.Bool {
		if err := Removed(normalize(m.Spelling.Dashed) + "=" + text); err != nil {
			b.errs = append(b.errs, located(v.name, err))
			return
		}
		if on, _ := truth(text); !on {
			b.errs = append(b.errs, &fault.Error{Text: fmt.Sprintf("%s: %q is neither 1 nor 0", v.name, text)})
			return
		}
	}
	g := Given{Option: m.Option, Spelled: v.name, Value: value, level: environment, from: v.name}
	if g.takes == "pair" && !strings.Contains(value, "=") {
		b.errs = append(b.errs, &fault.Error{Text: fmt.Sprintf("%s: %q is not NAME=VALUE", v.name, value)})
		return
	}
	if m.Form != "" {
		g.typed, g.Value = value, m.value(value)
	}
	b.keep(g)
}

// keep reads a value and keeps it.
func (b *defaults) keep(g Given) {
	g, there, note := b.parameter(g)
	if note != "" {
		b.warnings = append(b.warnings, note)
	}
	if !there {
		return
	}
	var err error
	g.decoded, err = b.decode(g.Option, g.Value)
	if err == nil {
		b.given = append(b.given, g)
		return
	}
	for _, one := range fault.Each(err) {
		var syntax *hostlist.SyntaxError
		if errors.As(one, &syntax) {
			syntax.File = g.from
		} else {
			one = located(g.from, &fault.Error{Text: one.Error()})
		}
		b.errs = append(b.errs, one)
	}
}

// switched reads the value of a switch: 1 and 0, yes and no, on and off, or one of its
// words.
func (m meaning) switched(text string) (value string, on bool) {
	of, known := truth(text)
	switch {
	case m.Preset:
		return m.Value, of || !known
	case !known || slices.Contains(m.Words, text) || m.takes != "none" && m.Words == nil:
		return text, true
	case !of && slices.Contains(m.Words, "no"):
		return "no", true
	case of && m.field.Type.Kind().String() == "int" && text != "1":
		return text, true
	}
	return m.implied, of
}

// truth reads a word for on or off.
func truth(text string) (on, known bool) {
	switch strings.ToLower(text) {
	case "1", "yes", "y", "true", "on", "enable":
		return true, true
	case "0", "no", "n", "false", "off", "disable":
		return false, true
	}
	return false, false
}
