package option

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
)

// A Line is a command line, understood.
type Line struct {
	Job      Job
	Sections []Section // at least one, unless help or the version is asked for

	Help     *Topic   // not nil: help is asked for, and nothing else counts
	Version  bool     // the version is asked for
	Offers   bool     // the words of --pmi are asked for
	Warnings []string // of what was said and has no effect

	WidthFrom string // the option or variable that says, beside --tpp, how many CPUs a rank has; may be empty

	given []Given
}

// A Section is what stands between two colons, with what it inherits from the
// first section and the job (CLI-13).
type Section struct {
	Number int // from 1, as on the line; sections with -n 0 are left out
	Own
	Shared
	Program string
	Args    []string // byte for byte (ARG-1)

	given []Given
}

// Origin tells how a job option was given, by its canonical name ("timeout").
func (l Line) Origin(name string) (Given, bool) { return origin(l.given, name) }

// Origin tells how a section option was given, by its canonical name ("n").
// The Section of the result differs from the section's own if it is inherited.
func (s Section) Origin(name string) (Given, bool) { return origin(s.given, name) }

func origin(given []Given, name string) (Given, bool) {
	for _, g := range given {
		if g.Name == name {
			return g, true
		}
	}
	return Given{}, false
}

// HostsFrom is the number of the section that named this one's hosts; 0: none did.
func (s Section) HostsFrom() int {
	from := 0
	for _, option := range []string{"host", "hostfile"} {
		if g, ok := s.Origin(option); ok {
			from = max(from, g.Section)
		}
	}
	return from
}

// NamesHosts reports whether an option of the line, or of its -configfile, names hosts.
func (l Line) NamesHosts() bool {
	return l.hasGiven(func(g Given) bool { return g.rival == "hosts" && !(g.Name == "rmk" && g.Value == "auto") })
}

// NamesProgram reports whether words that may be hosts or a program, as those behind --doctor, are a program: an option names
// hosts or says how to run a program, or one of the words has a slash.
func (l Line) NamesProgram() bool {
	first := l.Sections[0]
	slash := func(word string) bool { return strings.Contains(word, "/") }
	return len(l.Sections) > 1 || l.NamesHosts() || l.hasGiven(func(g Given) bool { return g.ofJob() }) ||
		slash(first.Program) || slices.ContainsFunc(first.Args, slash)
}

// Misplaced is the error of an option that is given without one that it needs, or beside one that it excludes; nil: all may stand
// together. starts says whether the line starts ranks.
func (l Line) Misplaced(starts bool) error {
	all := l.given
	for _, s := range l.Sections {
		all = append(all[:len(all):len(all)], s.given...)
	}
	for _, g := range all {
		there := func(name string) bool {
			_, is := origin(all, name)
			return is || name == "run" && starts
		}
		needs, excludes := strings.Fields(g.field.Tag.Get("needs")), strings.Fields(g.field.Tag.Get("excludes"))
		if len(needs) > 0 && !slices.ContainsFunc(needs, there) {
			return g.misplaced(needs)
		}
		if i := slices.IndexFunc(excludes, there); i >= 0 {
			return &fault.Error{Text: fmt.Sprintf("%s contradicts %s", g.Spelled, g.table.names[excludes[i]].Option.Dashed), Remedy: "keep one"}
		}
	}
	return nil
}

// misplaced is the error of an option that is given without any that it needs.
func (g Given) misplaced(needs []string) error {
	if needs[0] == "run" {
		return &fault.Error{Text: g.Spelled + " has a meaning only with a run", Remedy: "leave it out"}
	}
	var names []string
	for _, name := range needs {
		names = append(names, g.table.names[name].Option.Dashed)
	}
	remedy := "add one of them, or leave it out"
	if only := g.table.names[needs[0]].Option; len(needs) == 1 {
		remedy = fmt.Sprintf("add %s%s, or leave it out", only.Dashed, only.argument())
	}
	return &fault.Error{Text: fmt.Sprintf("%s has a meaning only with %s", g.Spelled, strings.Join(names, " or ")), Remedy: remedy}
}

// hasGiven reports whether the line, or its -configfile, has such an option.
func (l Line) hasGiven(is func(Given) bool) bool {
	given := l.given
	for _, s := range l.Sections {
		given = append(given[:len(given):len(given)], s.given...)
	}
	return slices.ContainsFunc(given, func(g Given) bool { return g.level < environment && is(g) })
}

// Parse reads a command line, without the program's own name, and takes what variables and
// files say (CLI-12). It is as pure as from.Read. An error is of type UsageErrors and holds
// all faults, ten at most.
func (t *Table) Parse(args []string, from Sources) (Line, error) {
	parts, err := split(args)
	if err != nil {
		return Line{}, UsageErrors{err}
	}
	sections := make([]scanned, len(parts))
	for i, part := range parts {
		sections[i] = t.scan(part)
	}
	if line, ok := asked(sections); ok {
		return line, nil
	}
	return t.line(t, sections, from)
}

// mpiexecLine makes a line of what stands in it and what is said elsewhere.
func mpiexecLine(t *Table, sections []scanned, from Sources) (Line, error) {
	sections, unread := t.expand(sections, from.Read)
	rest := t.defaults(sections, from)
	errs, line := mistakes(sections, rest)
	errs = append(unread, errs...)
	job, each, contradictions := inherit(sections, rest.given)
	errs = append(errs, contradictions...)
	errs = append(errs, counts(sections, each)...)
	if len(errs) > 0 {
		return Line{}, atMostTen(errs)
	}
	line.given = job
	line.fill(sections, each)
	if from.Environ != nil {
		line.Warnings = append(line.Warnings, unset(line.Sections, from.Environ)...)
	}
	return line, nil
}

// unset warns of variables that -x is to take along and that are not there.
func unset(sections []Section, environ []string) (warnings []string) {
	for _, s := range sections {
		for _, v := range s.X {
			there := slices.ContainsFunc(environ, func(assignment string) bool {
				name, _, _ := strings.Cut(assignment, "=")
				return job.Matches([]string{v.Name}, name)
			})
			text := fmt.Sprintf("-x %s: no such variable here; ranks get none", v.Name)
			if v.Copy && !there && !slices.Contains(warnings, text) {
				warnings = append(warnings, text)
			}
		}
	}
	return warnings
}

// fill puts the values of all options into the line.
func (l *Line) fill(sections []scanned, each [][]Given) {
	fill(l.given, map[Scope]any{PerJob: &l.Job})
	for i, given := range each {
		s := Section{Number: i + 1, given: given}
		if len(sections[i].program) > 0 {
			s.Program, s.Args = sections[i].program[0], sections[i].program[1:]
		}
		fill(given, map[Scope]any{PerSection: &s.Own, Inherited: &s.Shared})
		s.locateHosts()
		if _, ok := s.Origin("n"); !ok || s.N > 0 || planning(sections) {
			l.Sections = append(l.Sections, s)
		}
	}
}

// locateHosts has messages about hosts name the variable that gave them.
func (s *Section) locateHosts() {
	g, ok := s.Origin("host")
	for i := range s.Host {
		for k := range s.Host[i] {
			if ok && g.level == environment {
				s.Host[i][k].File = g.from
			}
		}
	}
}

// asked finds requests for help, the version or the words of --pmi. They win over all faults: who
// asks for help need not have got it right.
func asked(sections []scanned) (Line, bool) {
	var line Line
	for _, s := range sections {
		if s.help != nil && line.Help == nil {
			line.Help = s.help
		}
		line.Version = line.Version || s.version
		line.Offers = line.Offers || s.offers
	}
	return line, line.Help != nil || line.Version || line.Offers
}

// mistakes gathers what is wrong inside the sections, with the section's number where
// there are several, and in the rest. With --lenient some of it comes to a warning of the
// line.
func mistakes(sections []scanned, rest defaults) (all []error, line Line) {
	line.Warnings = rest.warnings
	lenient := given(sections, rest, "lenient")
	note := func(place string, err error) {
		if harmless, ok := err.(ignorable); ok {
			if lenient {
				line.Warnings = append(line.Warnings, place+harmless.of.Text+"; ignored")
				return
			}
			err = harmless.of
		}
		if e, ok := err.(*fault.Error); ok {
			err = &fault.Error{Text: place + e.Text, Remedy: e.Remedy}
		}
		all = append(all, err)
	}
	for i, s := range sections {
		place := ""
		if s.from != "" {
			place = s.from + ": "
		} else if len(sections) > 1 {
			place = fmt.Sprintf("section %d: ", i+1)
		}
		for _, text := range s.notes {
			line.Warnings = append(line.Warnings, place+text)
		}
		for _, err := range s.errs {
			var syntax *hostlist.SyntaxError
			if s.from != "" && errors.As(err, &syntax) {
				err = located(s.from, err)
			}
			note(place, err)
		}
		alone := drawsTopology(s.given) && len(sections) == 1 // the hosts are drawn, and nothing is started
		if len(s.program) == 0 && !s.lost && !planning(sections) && !alone {
			note(place, noProgram(len(sections), s.from))
		} else if !s.lost && len(s.program) > 0 && s.program[0] == "" {
			note(place, &fault.Error{Text: "the name of the program is empty"})
		}
	}
	for _, err := range rest.errs {
		note("", err)
	}
	return all, line
}

// drawsTopology reports whether --display topo is given.
func drawsTopology(given []Given) bool {
	return slices.ContainsFunc(given, func(g Given) bool {
		return g.Name == "display" && slices.Contains(g.decoded.Interface().(Picture), "topo")
	})
}

// given reports whether a switch of the job is given anywhere.
func given(sections []scanned, rest defaults, name string) bool {
	_, ok := origin(rest.given, name)
	return ok || slices.ContainsFunc(sections, func(s scanned) bool { _, ok := origin(s.given, name); return ok })
}

// planning reports whether the line only asks for something.
func planning(sections []scanned) bool {
	return slices.ContainsFunc(sections, func(s scanned) bool {
		return slices.ContainsFunc(s.given, func(g Given) bool { return g.asks != "" })
	})
}

func noProgram(sections int, file string) *fault.Error {
	if file != "" {
		return &fault.Error{Text: "no program is named", Remedy: "each line has one; a backslash at the end of a line continues it"}
	}
	if sections > 1 {
		return &fault.Error{Text: "no program is named", Remedy: "a lone : separates sections, each with a program"}
	}
	return &fault.Error{Text: "no program is named", Remedy: "mpiexec [options] program [args]; mpiexec --help tells more"}
}

// inherit applies CLI-13, CLI-8 and CLI-12: it returns what is said of the job, and of
// each section including what comes from the first one, from global forms of options and from the rest.
func inherit(sections []scanned, rest []Given) (job []Given, each [][]Given, errs []error) {
	take := func(into, given []Given) []Given {
		for _, g := range given {
			var err error
			if into, err = combine(into, g); err != nil {
				errs = append(errs, err)
			}
		}
		return into
	}
	each = make([][]Given, len(sections))
	var all, global []Given // of the job; of all sections
	for i, s := range sections {
		jobs, own := byScope(s.given)
		all = append(all, jobs...)
		each[i] = byLevel(own)
		k := slices.IndexFunc(own, func(g Given) bool { return g.level >= globalOnLine })
		if k >= 0 {
			each[i], global = own[:k:k], append(global, own[k:]...)
		}
	}
	global = take(nil, byLevel(global))
	for i, own := range each {
		each[i] = take(nil, own)
		for _, g := range each[0] {
			_, has := origin(own, g.Name)
			_, general := origin(global, g.Name)
			if i > 0 && g.Scope == Inherited && !has && (!general || g.sums) {
				each[i] = append(each[i], g)
			}
		}
	}
	jobs, lower := byScope(rest)
	job = take(nil, byLevel(append(all, jobs...)))
	for i := range each {
		for _, general := range [][]Given{global, lower} {
			here := each[i]
			each[i] = take(here, slices.DeleteFunc(slices.Clone(general), func(g Given) bool { return g.hidden(here) }))
		}
	}
	return job, each, errs
}

// hidden reports whether a higher place gives a rival of an option.
func (g Given) hidden(by []Given) bool {
	return slices.ContainsFunc(by, func(other Given) bool {
		return g.rival != "" && other.rival == g.rival && other.Option != g.Option && other.level < g.level
	})
}

// byScope divides what is said of the job from what is said of sections.
func byScope(given []Given) (job, section []Given) {
	for _, g := range given {
		if g.Scope == PerJob {
			job = append(job, g)
		} else {
			section = append(section, g)
		}
	}
	return job, section
}

// combine adds an option to those given before, which stand as high or higher. Options
// that do not accumulate may be repeated, but not with another value (CLI-8), except in a
// higher place.
func combine(given []Given, g Given) ([]Given, error) {
	for i, before := range given {
		switch {
		case before.Option != g.Option, before.level == g.level && g.list:
			continue
		case before.level < g.level && g.sums:
			return slices.Insert(given, i, g), nil // the last assignment holds
		case before.level < g.level:
			return given, nil
		}
		switch differ := g.canonical(g.Value) != g.canonical(before.Value); {
		case g.last:
			given[i] = g
		case differ && before.Section != g.Section:
			return given, &fault.Error{Text: fmt.Sprintf("%s in section %d contradicts %s in section %d",
				g, g.Section, before, before.Section), Remedy: "it is said of the whole job; keep one"}
		case differ:
			return given, &fault.Error{Text: fmt.Sprintf("%s contradicts %s", g, before), Remedy: "keep one"}
		}
		return given, nil
	}
	return append(given, g), nil
}

// counts checks -n where it depends on the number of sections (CLI-7, PLACE-1).
// A section with other faults is passed over.
func counts(sections []scanned, each [][]Given) []error {
	var errs []error
	skipped := 0
	for i, given := range each {
		if len(sections[i].errs) > 0 || len(sections[i].program) == 0 {
			continue
		}
		g, ok := origin(given, "n")
		soft, choice := origin(given, "soft")
		_, grouped := origin(given, "het-group") // it has as many ranks as they have tasks
		switch zero := ok && isZero(g.Value); {
		case ok && choice:
			errs = append(errs, &fault.Error{Text: fmt.Sprintf("%s contradicts %s", soft, g), Remedy: "keep one"})
		case zero && len(each) == 1:
			errs = append(errs, &fault.Error{Text: fmt.Sprintf("%s: 0 is too small; at least 1", g.Spelled)})
		case zero:
			skipped++
		case !ok && !choice && !grouped && len(each) > 1:
			errs = append(errs, &fault.Error{Text: fmt.Sprintf("section %d: -n is missing", i+1),
				Remedy: "with several sections each must say how many ranks it has"})
		}
	}
	if skipped == len(each) && skipped > 1 {
		errs = append(errs, &fault.Error{Text: "every section has -n 0: nothing to start"})
	}
	return errs
}

func atMostTen(errs []error) UsageErrors {
	const most = 10
	if len(errs) > most {
		more := fmt.Sprintf("and %d more", len(errs)-most)
		errs = append(errs[:most:most], &fault.Error{Text: more})
	}
	return errs
}
