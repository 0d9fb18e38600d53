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

// A Line is a parsed command line. It includes defaults from the environment and the configuration.
type Line struct {
	Job  JobOptions
	Apps []AppContext // at least one, unless Help or Version is set

	Help     *HelpTopic // not nil: help is requested, and all else is ignored
	Version  bool       // the version is requested
	ListPMI  bool       // the values of --pmi are requested
	Warnings []string   // about options that have no effect

	WidthFrom string // option or variable other than --tpp that sets the CPUs of a rank; empty: none

	Query JobQuery // what the line asks of jobs or hosts; its zero value: it starts a job, or plans one

	table    *Table // of mpiexec
	ofMpijob bool   // it is a line of mpijob
	given    []GivenOption
}

// An AppContext is the part of the command line between two colons. Its options include options that it inherits from
// the first app context and from defaults (rule CLI-13).
type AppContext struct {
	Number int // from 1, as on the line; app contexts with -n 0 are left out
	AppOptions
	InheritedOptions
	Program string
	Args    []string // byte for byte (ARG-1)

	given []GivenOption
}

// Origin returns the effective occurrence of a job option. name is the option's main spelling without dashes, such as
// "timeout". Origin returns false if the option was not given.
func (l Line) Origin(name string) (GivenOption, bool) { return originOf(l.given, name) }

// Origin returns the effective occurrence of an option in the app context. name is the option's main spelling without
// dashes, such as "n". Origin returns false if the option was not given. If the option is inherited, its AppNumber is
// the number of the app context from which it comes.
func (s AppContext) Origin(name string) (GivenOption, bool) { return originOf(s.given, name) }

func originOf(options []GivenOption, name string) (GivenOption, bool) {
	for _, g := range options {
		if g.Name == name {
			return g, true
		}
	}
	return GivenOption{}, false
}

// WrittenFiles returns the job options that name a file for mpiexec to write, in the order of the command
// line.
func (l Line) WrittenFiles() (all []GivenOption) {
	for _, g := range l.given {
		if g.field.Tag.Get("writes") != "" {
			all = append(all, g)
		}
	}
	return all
}

// HostsFromApp returns the number of the app context that names the hosts of s. That is the number of s
// itself, unless s inherits its hosts. It is 0 if no app context names hosts.
func (s AppContext) HostsFromApp() int {
	from := 0
	for _, option := range []string{"host", "hostfile"} {
		if g, ok := s.Origin(option); ok {
			from = max(from, g.AppNumber)
		}
	}
	return from
}

// NamesHosts reports whether any option of the command line, including its -configfile, names hosts.
func (l Line) NamesHosts() bool {
	return l.hasGiven(func(g GivenOption) bool { return g.rivalGroup == "hosts" && !(g.Name == "rmk" && g.Value == "auto") })
}

// NamesProgram reports whether the words after --doctor are a program and its arguments rather than hosts.
// They are a program if an option names hosts or says how to run a program, or if a word contains a slash. In
// a command line of mpijob they are always hosts.
func (l Line) NamesProgram() bool {
	first := l.Apps[0]
	slash := func(word string) bool { return strings.Contains(word, "/") }
	return !l.ofMpijob && (len(l.Apps) > 1 || l.NamesHosts() || l.hasGiven(func(g GivenOption) bool { return g.concernsRun() }) ||
		slash(first.Program) || slices.ContainsFunc(first.Args, slash))
}

// Misplaced checks options that need or exclude other options. It returns an error if a needed one is missing
// or an excluded one is given, and nil otherwise. starts says whether the command line starts ranks.
func (l Line) Misplaced(starts bool) error {
	all := l.given
	for _, s := range l.Apps {
		all = append(all[:len(all):len(all)], s.given...)
	}
	for _, g := range all {
		present := func(name string) bool {
			_, is := originOf(all, name)
			return is || name == "run" && starts
		}
		needs := strings.Fields(g.field.Tag.Get("needs"))
		if len(needs) > 0 && !slices.ContainsFunc(needs, present) {
			return g.misplaced(needs)
		}
		for _, other := range all {
			if g.excludes(other) {
				return g.contradicted(other)
			}
		}
	}
	return nil
}

// excludes reports whether the tag "excludes" of option g names other. An option that asks about jobs or hosts
// excludes only options of the command line itself, because variables apply to all command lines.
func (g GivenOption) excludes(other GivenOption) bool {
	if g.Option == other.Option || g.query != "" && !other.OnLine() {
		return false
	}
	return slices.ContainsFunc(strings.Fields(g.field.Tag.Get("excludes")), func(word string) bool {
		name, value, hasValue := strings.Cut(word, "=")
		return name == "asks" && other.query != "" || name == other.Name && (!hasValue || value == other.Value)
	})
}

// contradicted returns an error which says that option g cannot be given together with other.
func (g GivenOption) contradicted(other GivenOption) error {
	switch {
	case g.query == "":
		return &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", g.Spelled, other.Spelled), Remedy: "use only one of them"}
	case other.query == "yes" || other.query == "hosts":
		return &usererr.Error{Text: fmt.Sprintf("%s and %s cannot be used together", g.Spelled, other.Spelled), Remedy: "use only one of them at a time"}
	}
	return &usererr.Error{Text: fmt.Sprintf("%s cannot be used with %s", other.Spelled, g.Spelled), Remedy: "leave out " + other.Spelled}
}

// misplaced returns an error which says that option g needs one of the required options.
func (g GivenOption) misplaced(required []string) error {
	if required[0] == "run" {
		return &usererr.Error{Text: g.Spelled + " cannot be used in a command that starts no ranks", Remedy: "leave out " + g.Spelled}
	}
	var names []string
	for _, name := range required {
		names = append(names, g.table.names[name].Option.Dashed)
	}
	remedy := "add one of these options, or leave out " + g.Spelled
	if only := g.table.names[required[0]].Option; len(required) == 1 {
		remedy = fmt.Sprintf("add %s, or leave out %s", only.Dashed+only.argumentText(), g.Spelled)
	}
	return &usererr.Error{Text: fmt.Sprintf("%s requires %s", g.Spelled, strings.Join(names, " or ")), Remedy: remedy}
}

// hasGiven reports whether match returns true for any option of the command line or its -configfile.
func (l Line) hasGiven(match func(GivenOption) bool) bool {
	given := l.given
	for _, s := range l.Apps {
		given = append(given[:len(given):len(given)], s.given...)
	}
	return slices.ContainsFunc(given, func(g GivenOption) bool { return g.precedence < fromEnvironment && match(g) })
}

// Parse parses a command line without the program's name, and adds the options that variables and files in sources
// set (rule CLI-12). Its only side effect is that it calls sources.Read. The error is of type UsageErrors and
// contains at most ten errors.
func (t *Table) Parse(args []string, sources Sources) (Line, error) {
	parts, err := splitApps(args)
	if err != nil {
		return Line{}, UsageErrors{err}
	}
	apps := make([]scannedApp, len(parts))
	for i, part := range parts {
		apps[i] = t.scan(part)
	}
	if line, ok := infoRequest(apps); ok {
		return line, nil
	}
	return t.makeLine(t, apps, sources)
}

// mpiexecLine builds a Line from the parsed app contexts and the defaults from files and variables.
func mpiexecLine(t *Table, apps []scannedApp, sources Sources) (Line, error) {
	apps, unread := t.expandConfigFiles(apps, sources.Read)
	rest := t.readDefaults(apps, sources)
	errs, line := collectErrors(apps, rest)
	errs = append(unread, errs...)
	job, each, contradictions := inheritOptions(apps, rest.given)
	errs = append(errs, contradictions...)
	errs = append(errs, checkRankCounts(apps, each)...)
	if len(errs) > 0 {
		return Line{}, firstTen(errs)
	}
	line.table, line.given = t, job
	line.setValues(apps, each)
	if sources.Environ != nil {
		line.Warnings = append(line.Warnings, warnUnset(line.Apps, sources.Environ)...)
	}
	return line, nil
}

// warnUnset returns a warning for each variable that option -x names but environ does not contain.
func warnUnset(apps []AppContext, environ []string) (warnings []string) {
	for _, s := range apps {
		for _, v := range s.X {
			defined := slices.ContainsFunc(environ, func(assignment string) bool {
				name, _, _ := strings.Cut(assignment, "=")
				return job.MatchesPattern([]string{v.Name}, name)
			})
			text := fmt.Sprintf("-x %s: this variable is not set here, so ranks do not get it", v.Name)
			if v.Inherited && !defined && !slices.Contains(warnings, text) {
				warnings = append(warnings, text)
			}
		}
	}
	return warnings
}

// setValues stores the values of all options of the command line in the fields of l.
func (l *Line) setValues(apps []scannedApp, appOptions [][]GivenOption) {
	setFields(l.given, &l.Job)
	l.Query = queryOf(l.given)
	for i, given := range appOptions {
		s := AppContext{Number: i + 1, given: given}
		if len(apps[i].program) > 0 {
			s.Program, s.Args = apps[i].program[0], apps[i].program[1:]
		}
		setFields(given, &s.AppOptions)
		setFields(given, &s.InheritedOptions)
		s.locateHosts()
		if _, ok := s.Origin("n"); !ok || s.N > 0 || startsNothing(apps) {
			l.Apps = append(l.Apps, s)
		}
	}
}

// locateHosts records which environment variable has named the hosts. Error messages about the hosts name this
// variable.
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

// infoRequest returns the Line for a request that only prints information: help, the version or the keywords of --pmi.
// Such a request takes precedence over all errors, because the command line of a user who asks for help may contain
// errors. It returns false if there is no such request.
func infoRequest(apps []scannedApp) (Line, bool) {
	var line Line
	for _, s := range apps {
		if s.help != nil && line.Help == nil {
			line.Help = s.help
		}
		line.Version = line.Version || s.version
		line.given = append(line.given, s.given...)
		line.ListPMI = line.ListPMI || s.listPMI
	}
	return line, line.Help != nil || line.Version || line.ListPMI
}

// collectErrors returns the errors of all app contexts and of the defaults. If there are several app
// contexts, each error says which one it is about. With --lenient, some errors become warnings, which are
// stored in line.
func collectErrors(apps []scannedApp, rest defaultOptions) (all []error, line Line) {
	line.Warnings = rest.warnings
	lenient := isGiven(apps, rest, "lenient")
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
	for i, s := range apps {
		place := ""
		if s.from != "" {
			place = s.from + ": "
		} else if len(apps) > 1 {
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
		alone := drawsTopology(s.given) && len(apps) == 1 // draws the hosts and starts nothing
		if len(s.program) == 0 && !s.unparsable && !s.noProgram && !startsNothing(apps) && !alone {
			note(place, noProgramError(len(apps), s.from))
		} else if !s.unparsable && len(s.program) > 0 && s.program[0] == "" {
			note(place, &usererr.Error{Text: "the name of the program is empty"})
		}
	}
	for _, err := range rest.errs {
		note("", err)
	}
	return all, line
}

// drawsTopology reports whether the options contain --display topo.
func drawsTopology(options []GivenOption) bool {
	return slices.ContainsFunc(options, func(g GivenOption) bool {
		return g.Name == "display" && slices.Contains(g.decoded.Interface().(DisplayList), "topo")
	})
}

// isGiven reports whether an option is given on the line or in the defaults.
func isGiven(apps []scannedApp, rest defaultOptions, name string) bool {
	_, ok := originOf(rest.given, name)
	return ok || slices.ContainsFunc(apps, func(s scannedApp) bool { _, ok := originOf(s.given, name); return ok })
}

// startsNothing reports whether the command line contains an option that only asks for information.
func startsNothing(apps []scannedApp) bool {
	return slices.ContainsFunc(apps, func(s scannedApp) bool {
		return slices.ContainsFunc(s.given, func(g GivenOption) bool { return g.query != "" })
	})
}

func noProgramError(appCount int, file string) *usererr.Error {
	if file != "" {
		return &usererr.Error{Text: "no program given", Remedy: "write a program on each line, or continue a line with a backslash at its end"}
	}
	if appCount > 1 {
		return &usererr.Error{Text: "no program given", Remedy: "write a program before and after each \":\""}
	}
	return &usererr.Error{Text: "no program given", Remedy: "usage: mpiexec [options] program [args]; see mpiexec --help"}
}

// inheritOptions combines the options on the command line with the defaults in rest (rules CLI-8, CLI-12 and CLI-13).
// It returns the options of the job, and the options of each app context. An app context also gets options from the first
// app context and from global forms such as -genv.
func inheritOptions(apps []scannedApp, rest []GivenOption) (job []GivenOption, appOptions [][]GivenOption, errs []error) {
	addAll := func(into, given []GivenOption) []GivenOption {
		for _, g := range given {
			var err error
			if into, err = addGiven(into, g); err != nil {
				errs = append(errs, err)
			}
		}
		return into
	}
	appOptions = make([][]GivenOption, len(apps))
	var all, global []GivenOption // options of the job; global forms for all app contexts
	for i, s := range apps {
		jobs, own := splitByScope(s.given)
		all = append(all, jobs...)
		appOptions[i] = sortByPrecedence(own)
		k := slices.IndexFunc(own, func(g GivenOption) bool { return g.precedence >= globalOnLine })
		if k >= 0 {
			appOptions[i], global = own[:k:k], append(global, own[k:]...)
		}
	}
	global = addAll(nil, sortByPrecedence(global))
	for i, own := range appOptions {
		appOptions[i] = addAll(nil, own)
		for _, g := range appOptions[0] {
			_, has := originOf(own, g.Name)
			_, general := originOf(global, g.Name)
			if i > 0 && g.Scope == Inherited && !has && (!general || g.addsUp) {
				appOptions[i] = append(appOptions[i], g)
			}
		}
	}
	jobs, lower := splitByScope(rest)
	job = addAll(nil, sortByPrecedence(append(all, jobs...)))
	for i := range appOptions {
		for _, general := range [][]GivenOption{global, lower} {
			own := appOptions[i]
			appOptions[i] = addAll(own, slices.DeleteFunc(slices.Clone(general), func(g GivenOption) bool { return g.isHiddenBy(own) }))
		}
	}
	return job, appOptions, errs
}

// isHiddenBy reports whether an option in others has the same purpose as g and takes precedence over g. For example,
// an option on the command line hides g if g is in a variable.
func (g GivenOption) isHiddenBy(others []GivenOption) bool {
	return slices.ContainsFunc(others, func(other GivenOption) bool {
		return g.rivalGroup != "" && other.rivalGroup == g.rivalGroup && other.Option != g.Option && other.precedence < g.precedence
	})
}

// splitByScope splits options into the options of the job and the options of app contexts.
func splitByScope(options []GivenOption) (job, app []GivenOption) {
	for _, g := range options {
		if g.Scope == PerJob {
			job = append(job, g)
		} else {
			app = append(app, g)
		}
	}
	return job, app
}

// addGiven adds option g to a list of options that have the same or a higher precedence. If the list has the option
// with a higher precedence, addGiven ignores g. If the list has it with the same precedence and another value,
// addGiven returns an error. Options that may be repeated or that collect values are exceptions (rule CLI-8).
func addGiven(options []GivenOption, g GivenOption) ([]GivenOption, error) {
	for i, before := range options {
		switch {
		case before.Option != g.Option, before.precedence == g.precedence && g.accumulates:
			continue
		case before.precedence < g.precedence && g.addsUp:
			return slices.Insert(options, i, g), nil // the last assignment wins
		case before.precedence < g.precedence:
			return options, nil
		}
		switch differ := g.canonicalValue(g.Value) != g.canonicalValue(before.Value); {
		case g.lastWins:
			options[i] = g
		case differ && before.AppNumber != g.AppNumber:
			return options, &usererr.Error{Text: fmt.Sprintf("%s in app context %d contradicts %s in app context %d",
				g, g.AppNumber, before, before.AppNumber), Remedy: "the option applies to the whole job; give it only once"}
		case differ:
			return options, &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", g, before), Remedy: "use only one of them"}
		}
		return options, nil
	}
	return append(options, g), nil
}

// checkRankCounts checks the values of -n against the rules that depend on the number of app contexts (rules CLI-7,
// PLACE-1). It skips app contexts with other errors.
func checkRankCounts(apps []scannedApp, appOptions [][]GivenOption) []error {
	var errs []error
	skipped := 0
	for i, given := range appOptions {
		if len(apps[i].errs) > 0 || len(apps[i].program) == 0 {
			continue
		}
		g, ok := originOf(given, "n")
		soft, choice := originOf(given, "soft")
		_, grouped := originOf(given, "het-group") // as many ranks as its groups have tasks
		switch zero := ok && isZeroNumber(g.Value); {
		case ok && choice:
			errs = append(errs, &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", soft, g), Remedy: "use only one of them"})
		case zero && len(appOptions) == 1:
			errs = append(errs, &usererr.Error{Text: fmt.Sprintf("%s: 0 is too small; the smallest value is 1", g.Spelled)})
		case zero:
			skipped++
		case !ok && !choice && !grouped && len(appOptions) > 1:
			errs = append(errs, &usererr.Error{Text: fmt.Sprintf("app context %d needs -n", i+1),
				Remedy: "if there are several app contexts, each needs its own -n"})
		}
	}
	if skipped == len(appOptions) && skipped > 1 {
		errs = append(errs, &usererr.Error{Text: "every app context has -n 0, so there is nothing to start"})
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
