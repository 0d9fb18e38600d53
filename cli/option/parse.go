package option

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/usererr"
)

// A Line is a command line, understood.
type Line struct {
	Job  JobOptions
	Apps []AppContext // at least one, unless help or the version is asked for

	Help     *HelpTopic // not nil: help is asked for, and nothing else counts
	Version  bool       // the version is asked for
	ListPMI  bool       // the words of --pmi are asked for
	Warnings []string   // of what was said and has no effect

	WidthFrom string // the option or variable that says, beside --tpp, how many CPUs a rank has; may be empty

	given []GivenOption
}

// An AppContext is what stands between two colons, with what it inherits from the
// first section and the job (CLI-13).
type AppContext struct {
	Number int // from 1, as on the line; sections with -n 0 are left out
	AppOptions
	InheritedOptions
	Program string
	Args    []string // byte for byte (ARG-1)

	given []GivenOption
}

// Origin tells how a job option was given, by its canonical name ("timeout").
func (l Line) Origin(name string) (GivenOption, bool) { return originOf(l.given, name) }

// Origin tells how a section option was given, by its canonical name ("n").
// The Section of the result differs from the section's own if it is inherited.
func (s AppContext) Origin(name string) (GivenOption, bool) { return originOf(s.given, name) }

func originOf(given []GivenOption, name string) (GivenOption, bool) {
	for _, g := range given {
		if g.Name == name {
			return g, true
		}
	}
	return GivenOption{}, false
}

// HostsFromApp is the number of the section that named this one's hosts; 0: none did.
func (s AppContext) HostsFromApp() int {
	from := 0
	for _, option := range []string{"host", "hostfile"} {
		if g, ok := s.Origin(option); ok {
			from = max(from, g.AppNumber)
		}
	}
	return from
}

// NamesHosts reports whether an option of the line, or of its -configfile, names hosts.
func (l Line) NamesHosts() bool {
	return l.hasGiven(func(g GivenOption) bool { return g.rivalGroup == "hosts" && !(g.Name == "rmk" && g.Value == "auto") })
}

// NamesProgram reports whether words that may be hosts or a program, as those behind --doctor, are a program: an option names
// hosts or says how to run a program, or one of the words has a slash.
func (l Line) NamesProgram() bool {
	first := l.Apps[0]
	slash := func(word string) bool { return strings.Contains(word, "/") }
	return len(l.Apps) > 1 || l.NamesHosts() || l.hasGiven(func(g GivenOption) bool { return g.concernsRun() }) ||
		slash(first.Program) || slices.ContainsFunc(first.Args, slash)
}

// Misplaced is the error of an option that is given without one that it needs, or beside one that it excludes; nil: all may stand
// together. starts says whether the line starts ranks.
func (l Line) Misplaced(starts bool) error {
	all := l.given
	for _, s := range l.Apps {
		all = append(all[:len(all):len(all)], s.given...)
	}
	for _, g := range all {
		there := func(name string) bool {
			_, is := originOf(all, name)
			return is || name == "run" && starts
		}
		needs, excludes := strings.Fields(g.field.Tag.Get("needs")), strings.Fields(g.field.Tag.Get("excludes"))
		if len(needs) > 0 && !slices.ContainsFunc(needs, there) {
			return g.misplaced(needs)
		}
		if i := slices.IndexFunc(excludes, there); i >= 0 {
			return &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", g.Spelled, g.table.names[excludes[i]].Option.Dashed), Remedy: "keep one"}
		}
	}
	return nil
}

// misplaced is the error of an option that is given without any that it needs.
func (g GivenOption) misplaced(needs []string) error {
	if needs[0] == "run" {
		return &usererr.Error{Text: g.Spelled + " has a meaning only with a run", Remedy: "leave it out"}
	}
	var names []string
	for _, name := range needs {
		names = append(names, g.table.names[name].Option.Dashed)
	}
	remedy := "add one of them, or leave it out"
	if only := g.table.names[needs[0]].Option; len(needs) == 1 {
		remedy = fmt.Sprintf("add %s%s, or leave it out", only.Dashed, only.argumentText())
	}
	return &usererr.Error{Text: fmt.Sprintf("%s has a meaning only with %s", g.Spelled, strings.Join(names, " or ")), Remedy: remedy}
}

// hasGiven reports whether the line, or its -configfile, has such an option.
func (l Line) hasGiven(is func(GivenOption) bool) bool {
	given := l.given
	for _, s := range l.Apps {
		given = append(given[:len(given):len(given)], s.given...)
	}
	return slices.ContainsFunc(given, func(g GivenOption) bool { return g.precedence < fromEnvironment && is(g) })
}

// Parse reads a command line, without the program's own name, and takes what variables and
// files say (CLI-12). It is as pure as from.Read. An error is of type UsageErrors and holds
// all faults, ten at most.
func (t *Table) Parse(args []string, from Sources) (Line, error) {
	parts, err := splitApps(args)
	if err != nil {
		return Line{}, UsageErrors{err}
	}
	sections := make([]scannedApp, len(parts))
	for i, part := range parts {
		sections[i] = t.scan(part)
	}
	if line, ok := infoRequest(sections); ok {
		return line, nil
	}
	return t.makeLine(t, sections, from)
}

// mpiexecLine makes a line of what stands in it and what is said elsewhere.
func mpiexecLine(t *Table, sections []scannedApp, from Sources) (Line, error) {
	sections, unread := t.expandConfigFiles(sections, from.Read)
	rest := t.readDefaults(sections, from)
	errs, line := collectErrors(sections, rest)
	errs = append(unread, errs...)
	job, each, contradictions := inheritOptions(sections, rest.given)
	errs = append(errs, contradictions...)
	errs = append(errs, checkRankCounts(sections, each)...)
	if len(errs) > 0 {
		return Line{}, firstTen(errs)
	}
	line.given = job
	line.setValues(sections, each)
	if from.Environ != nil {
		line.Warnings = append(line.Warnings, warnUnset(line.Apps, from.Environ)...)
	}
	return line, nil
}

// warnUnset warns of variables that -x is to take along and that are not there.
func warnUnset(sections []AppContext, environ []string) (warnings []string) {
	for _, s := range sections {
		for _, v := range s.X {
			there := slices.ContainsFunc(environ, func(assignment string) bool {
				name, _, _ := strings.Cut(assignment, "=")
				return job.MatchesPattern([]string{v.Name}, name)
			})
			text := fmt.Sprintf("-x %s: no such variable here; ranks get none", v.Name)
			if v.Inherited && !there && !slices.Contains(warnings, text) {
				warnings = append(warnings, text)
			}
		}
	}
	return warnings
}

// setValues puts the values of all options into the line.
func (l *Line) setValues(sections []scannedApp, each [][]GivenOption) {
	setFields(l.given, map[Scope]any{PerJob: &l.Job})
	for i, given := range each {
		s := AppContext{Number: i + 1, given: given}
		if len(sections[i].program) > 0 {
			s.Program, s.Args = sections[i].program[0], sections[i].program[1:]
		}
		setFields(given, map[Scope]any{PerApp: &s.AppOptions, Inherited: &s.InheritedOptions})
		s.locateHosts()
		if _, ok := s.Origin("n"); !ok || s.N > 0 || startsNothing(sections) {
			l.Apps = append(l.Apps, s)
		}
	}
}

// locateHosts has messages about hosts name the variable that gave them.
func (s *AppContext) locateHosts() {
	g, ok := s.Origin("host")
	for i := range s.Host {
		for k := range s.Host[i] {
			if ok && g.precedence == fromEnvironment {
				s.Host[i][k].File = g.source
			}
		}
	}
}

// infoRequest finds requests for help, the version or the words of --pmi. They win over all faults: who
// asks for help need not have got it right.
func infoRequest(sections []scannedApp) (Line, bool) {
	var line Line
	for _, s := range sections {
		if s.help != nil && line.Help == nil {
			line.Help = s.help
		}
		line.Version = line.Version || s.version
		line.ListPMI = line.ListPMI || s.listPMI
	}
	return line, line.Help != nil || line.Version || line.ListPMI
}

// collectErrors gathers what is wrong inside the sections, with the section's number where
// there are several, and in the rest. With --lenient some of it comes to a warning of the
// line.
func collectErrors(sections []scannedApp, rest defaultOptions) (all []error, line Line) {
	line.Warnings = rest.warnings
	lenient := isGiven(sections, rest, "lenient")
	note := func(place string, err error) {
		if harmless, ok := err.(lenientError); ok {
			if lenient {
				line.Warnings = append(line.Warnings, place+harmless.err.Text+"; ignored")
				return
			}
			err = harmless.err
		}
		if e, ok := err.(*usererr.Error); ok {
			err = &usererr.Error{Text: place + e.Text, Remedy: e.Remedy}
		}
		all = append(all, err)
	}
	for i, s := range sections {
		place := ""
		if s.from != "" {
			place = s.from + ": "
		} else if len(sections) > 1 {
			place = fmt.Sprintf("app context %d: ", i+1)
		}
		for _, text := range s.notes {
			line.Warnings = append(line.Warnings, place+text)
		}
		for _, err := range s.errs {
			var syntax *hostlist.SyntaxError
			if s.from != "" && errors.As(err, &syntax) {
				err = withSource(s.from, err)
			}
			note(place, err)
		}
		alone := drawsTopology(s.given) && len(sections) == 1 // the hosts are drawn, and nothing is started
		if len(s.program) == 0 && !s.unparsable && !startsNothing(sections) && !alone {
			note(place, noProgramError(len(sections), s.from))
		} else if !s.unparsable && len(s.program) > 0 && s.program[0] == "" {
			note(place, &usererr.Error{Text: "the name of the program is empty"})
		}
	}
	for _, err := range rest.errs {
		note("", err)
	}
	return all, line
}

// drawsTopology reports whether --display topo is given.
func drawsTopology(given []GivenOption) bool {
	return slices.ContainsFunc(given, func(g GivenOption) bool {
		return g.Name == "display" && slices.Contains(g.decoded.Interface().(DisplayList), "topo")
	})
}

// isGiven reports whether a switch of the job is given anywhere.
func isGiven(sections []scannedApp, rest defaultOptions, name string) bool {
	_, ok := originOf(rest.given, name)
	return ok || slices.ContainsFunc(sections, func(s scannedApp) bool { _, ok := originOf(s.given, name); return ok })
}

// startsNothing reports whether the line only asks for something.
func startsNothing(sections []scannedApp) bool {
	return slices.ContainsFunc(sections, func(s scannedApp) bool {
		return slices.ContainsFunc(s.given, func(g GivenOption) bool { return g.query != "" })
	})
}

func noProgramError(sections int, file string) *usererr.Error {
	if file != "" {
		return &usererr.Error{Text: "no program is named", Remedy: "each line has one; a backslash at the end of a line continues it"}
	}
	if sections > 1 {
		return &usererr.Error{Text: "no program is named", Remedy: "a lone : separates app contexts, each with a program"}
	}
	return &usererr.Error{Text: "no program is named", Remedy: "mpiexec [options] program [args]; mpiexec --help tells more"}
}

// inheritOptions applies CLI-13, CLI-8 and CLI-12: it returns what is said of the job, and of
// each section including what comes from the first one, from global forms of options and from the rest.
func inheritOptions(sections []scannedApp, rest []GivenOption) (job []GivenOption, each [][]GivenOption, errs []error) {
	take := func(into, given []GivenOption) []GivenOption {
		for _, g := range given {
			var err error
			if into, err = addGiven(into, g); err != nil {
				errs = append(errs, err)
			}
		}
		return into
	}
	each = make([][]GivenOption, len(sections))
	var all, global []GivenOption // of the job; of all sections
	for i, s := range sections {
		jobs, own := splitByScope(s.given)
		all = append(all, jobs...)
		each[i] = sortByPrecedence(own)
		k := slices.IndexFunc(own, func(g GivenOption) bool { return g.precedence >= globalOnLine })
		if k >= 0 {
			each[i], global = own[:k:k], append(global, own[k:]...)
		}
	}
	global = take(nil, sortByPrecedence(global))
	for i, own := range each {
		each[i] = take(nil, own)
		for _, g := range each[0] {
			_, has := originOf(own, g.Name)
			_, general := originOf(global, g.Name)
			if i > 0 && g.Scope == Inherited && !has && (!general || g.addsUp) {
				each[i] = append(each[i], g)
			}
		}
	}
	jobs, lower := splitByScope(rest)
	job = take(nil, sortByPrecedence(append(all, jobs...)))
	for i := range each {
		for _, general := range [][]GivenOption{global, lower} {
			here := each[i]
			each[i] = take(here, slices.DeleteFunc(slices.Clone(general), func(g GivenOption) bool { return g.isHiddenBy(here) }))
		}
	}
	return job, each, errs
}

// isHiddenBy reports whether a higher place gives a rival of an option.
func (g GivenOption) isHiddenBy(by []GivenOption) bool {
	return slices.ContainsFunc(by, func(other GivenOption) bool {
		return g.rivalGroup != "" && other.rivalGroup == g.rivalGroup && other.Option != g.Option && other.precedence < g.precedence
	})
}

// splitByScope divides what is said of the job from what is said of sections.
func splitByScope(given []GivenOption) (job, section []GivenOption) {
	for _, g := range given {
		if g.Scope == PerJob {
			job = append(job, g)
		} else {
			section = append(section, g)
		}
	}
	return job, section
}

// addGiven adds an option to those given before, which stand as high or higher. Options
// that do not accumulate may be repeated, but not with another value (CLI-8), except in a
// higher place.
func addGiven(given []GivenOption, g GivenOption) ([]GivenOption, error) {
	for i, before := range given {
		switch {
		case before.Option != g.Option, before.precedence == g.precedence && g.accumulates:
			continue
		case before.precedence < g.precedence && g.addsUp:
			return slices.Insert(given, i, g), nil // the last assignment holds
		case before.precedence < g.precedence:
			return given, nil
		}
		switch differ := g.canonicalValue(g.Value) != g.canonicalValue(before.Value); {
		case g.lastWins:
			given[i] = g
		case differ && before.AppNumber != g.AppNumber:
			return given, &usererr.Error{Text: fmt.Sprintf("%s in app context %d contradicts %s in app context %d",
				g, g.AppNumber, before, before.AppNumber), Remedy: "it is said of the whole job; keep one"}
		case differ:
			return given, &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", g, before), Remedy: "keep one"}
		}
		return given, nil
	}
	return append(given, g), nil
}

// checkRankCounts checks -n where it depends on the number of sections (CLI-7, PLACE-1).
// A section with other faults is passed over.
func checkRankCounts(sections []scannedApp, each [][]GivenOption) []error {
	var errs []error
	skipped := 0
	for i, given := range each {
		if len(sections[i].errs) > 0 || len(sections[i].program) == 0 {
			continue
		}
		g, ok := originOf(given, "n")
		soft, choice := originOf(given, "soft")
		_, grouped := originOf(given, "het-group") // it has as many ranks as they have tasks
		switch zero := ok && isZeroNumber(g.Value); {
		case ok && choice:
			errs = append(errs, &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", soft, g), Remedy: "keep one"})
		case zero && len(each) == 1:
			errs = append(errs, &usererr.Error{Text: fmt.Sprintf("%s: 0 is too small; at least 1", g.Spelled)})
		case zero:
			skipped++
		case !ok && !choice && !grouped && len(each) > 1:
			errs = append(errs, &usererr.Error{Text: fmt.Sprintf("app context %d: -n is missing", i+1),
				Remedy: "with several app contexts each must say how many ranks it has"})
		}
	}
	if skipped == len(each) && skipped > 1 {
		errs = append(errs, &usererr.Error{Text: "every app context has -n 0: nothing to start"})
	}
	return errs
}

func firstTen(errs []error) UsageErrors {
	const most = 10
	if len(errs) > most {
		more := fmt.Sprintf("and %d more", len(errs)-most)
		errs = append(errs[:most:most], &usererr.Error{Text: more})
	}
	return errs
}
