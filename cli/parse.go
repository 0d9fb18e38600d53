package cli

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"
)

// A Line is a command line, understood.
type Line struct {
	Job      JobOptions
	Sections []Section // at least one, unless help or the version is asked for

	Help    *Topic // not nil: help is asked for, and nothing else counts
	Version bool   // the version is asked for

	given     []Given
	widthFrom string // the option that says, beside --tpp, how many CPUs a rank has
}

// A Section is what stands between two colons, with what it inherits from the
// first section and the job (CLI-13).
type Section struct {
	Number int // from 1, as on the line; sections with -n 0 are left out
	SectionOptions
	SharedOptions
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

// Parse reads a command line, without the program's own name. It is pure. An
// error is of type UsageErrors and holds all faults, ten at most.
func Parse(args []string) (Line, error) {
	parts, err := split(args)
	if err != nil {
		return Line{}, UsageErrors{err}
	}
	t := newTable()
	sections := make([]scanned, len(parts))
	for i, part := range parts {
		sections[i] = t.scan(part)
	}
	if line, ok := asked(sections); ok {
		return line, nil
	}
	errs := mistakes(sections)
	job, each, contradictions := inherit(sections)
	errs = append(errs, contradictions...)
	errs = append(errs, counts(sections, each)...)
	if len(errs) > 0 {
		return Line{}, atMostTen(errs)
	}
	line := Line{given: job}
	if err := fill(job, &line.Job, nil, nil); err != nil {
		return Line{}, UsageErrors{err}
	}
	for i, given := range each {
		s := Section{Number: i + 1, given: given}
		if len(sections[i].program) > 0 {
			s.Program, s.Args = sections[i].program[0], sections[i].program[1:]
		}
		if err := fill(given, nil, &s.SectionOptions, &s.SharedOptions); err != nil {
			return Line{}, UsageErrors{err}
		}
		if _, ok := s.Origin("n"); !ok || s.N > 0 || planning(sections) {
			line.Sections = append(line.Sections, s)
		}
	}
	return line, nil
}

// asked finds requests for help or the version. They win over all faults: who
// asks for help need not have got it right.
func asked(sections []scanned) (Line, bool) {
	var line Line
	for _, s := range sections {
		if s.help != nil && line.Help == nil {
			line.Help = s.help
		}
		line.Version = line.Version || s.version
	}
	return line, line.Help != nil || line.Version
}

// mistakes gathers what is wrong inside the sections, with the section's number
// where there are several.
func mistakes(sections []scanned) []error {
	var all []error
	for i, s := range sections {
		errs := s.errs
		if len(s.program) == 0 && !s.lost && !planning(sections) {
			errs = append(errs, noProgram(len(sections), i+1))
		} else if !s.lost && len(s.program) > 0 && s.program[0] == "" {
			errs = append(errs, &UsageError{"the name of the program is empty", ""})
		}
		for _, err := range errs {
			if e, ok := err.(*UsageError); ok && len(sections) > 1 {
				e.Text = fmt.Sprintf("section %d: %s", i+1, e.Text)
			}
			all = append(all, err)
		}
	}
	return all
}

// programless are the options that start nothing, so that no program need be named.
var programless = []string{"plan", "dry-run", "doctor", "ps", "queue", "status", "signal"}

// planning reports whether the line only asks for something.
func planning(sections []scanned) bool {
	for _, s := range sections {
		if slices.ContainsFunc(programless, func(name string) bool { _, ok := origin(s.given, name); return ok }) {
			return true
		}
	}
	return false
}

func noProgram(sections, number int) error {
	if sections > 1 {
		return &UsageError{"no program is named", "a lone : separates sections, each with a program"}
	}
	return &UsageError{"no program is named", "mpiexec [options] program [args]; mpiexec --help tells more"}
}

// inherit applies CLI-13 and CLI-8: it returns what is said of the job, and of
// each section including what comes from the first one.
func inherit(sections []scanned) (job []Given, each [][]Given, errs []error) {
	take := func(into, given []Given) []Given {
		for _, g := range given {
			var err error
			if into, err = settle(into, g); err != nil {
				errs = append(errs, err)
			}
		}
		return into
	}
	each = make([][]Given, len(sections))
	for i, s := range sections {
		var own []Given
		for _, g := range s.given {
			if g.Scope == PerJob {
				job = take(job, []Given{g})
			} else {
				own = append(own, g)
			}
		}
		each[i] = take(nil, own)
		if i == 0 {
			continue
		}
		for _, g := range each[0] {
			if _, has := origin(own, g.Name); g.Scope == Shared && !has {
				each[i] = append(each[i], g)
			}
		}
	}
	return job, each, errs
}

// settle adds an option to those given before. Options that do not accumulate
// may be repeated, but not with another value (CLI-8).
func settle(given []Given, g Given) ([]Given, error) {
	for i, before := range given {
		if before.Option != g.Option || g.list {
			continue
		}
		switch differ := g.canonical(g.Value) != g.canonical(before.Value); {
		case g.last:
			given[i] = g
		case differ && before.Section != g.Section:
			return given, &UsageError{fmt.Sprintf("%s in section %d contradicts %s in section %d",
				g, g.Section, before, before.Section), "it is said of the whole job; keep one"}
		case differ:
			return given, &UsageError{fmt.Sprintf("%s contradicts %s", g, before), "keep one"}
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
		switch zero := ok && isZero(g.Value); {
		case zero && len(each) == 1:
			errs = append(errs, &UsageError{fmt.Sprintf("%s: 0 is too small; at least 1", g.Spelled), ""})
		case zero:
			skipped++
		case !ok && len(each) > 1:
			errs = append(errs, &UsageError{fmt.Sprintf("section %d: -n is missing", i+1),
				"with several sections each must say how many ranks it has"})
		}
	}
	if skipped == len(each) && skipped > 1 {
		errs = append(errs, &UsageError{"every section has -n 0: nothing to start", ""})
	}
	return errs
}

func atMostTen(errs []error) UsageErrors {
	const most = 10
	if len(errs) > most {
		more := fmt.Sprintf("and %d more", len(errs)-most)
		errs = append(errs[:most:most], &UsageError{more, ""})
	}
	return errs
}

// fill has kong put the values into the structs they are declared in.
//
// kong.New looks at every field with its tags: 15 µs each, 0.7 ms for our
// table, twice that in a cold process. So it is shown a struct of the options
// that were given only, made of the same fields (0.04 ms for three).
func fill(given []Given, job *JobOptions, section *SectionOptions, shared *SharedOptions) error {
	if len(given) == 0 {
		return nil
	}
	var used []*Option
	var fields []reflect.StructField
	var args []string
	index := make(map[*Option]bool)
	for _, g := range given {
		args = append(args, "--"+g.Name+"="+g.canonical(g.Value))
		if index[g.Option] {
			continue
		}
		index[g.Option] = true
		used = append(used, g.Option)
		fields = append(fields, reflect.StructField{
			Name: g.field.Name, Type: g.field.Type,
			Tag: reflect.StructTag(fmt.Sprintf(`name:%q sep:"none"`, g.Name)),
		})
	}
	grammar := reflect.New(reflect.StructOf(fields))
	parser, err := kong.New(grammar.Interface(), kong.NoDefaultHelp(), kong.Name("mpiexec"),
		kong.KindMapper(reflect.String, kong.MapperFunc(verbatim)), kong.TypeMapper(reflect.TypeFor[EnvVar](), kong.MapperFunc(verbatim)),
		kong.TypeMapper(reflect.TypeFor[EnvTake](), kong.MapperFunc(verbatim)), kong.TypeMapper(reflect.TypeFor[Words](), kong.MapperFunc(verbatim)))
	if err != nil {
		return fmt.Errorf("the option table: %w", err)
	}
	if _, err := parser.Parse(args); err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	targets := map[Scope]reflect.Value{
		PerJob: reflect.ValueOf(job), PerSection: reflect.ValueOf(section), Shared: reflect.ValueOf(shared),
	}
	for i, o := range used {
		targets[o.Scope].Elem().FieldByIndex(o.field.Index).Set(grammar.Elem().Field(i))
	}
	return nil
}

// verbatim takes a value byte for byte (ENV-7). What kong has for texts goes by way of
// JSON, which puts U+FFFD in the place of each byte that is no UTF-8.
func verbatim(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("value")
	if err != nil {
		return err
	}
	if u, ok := target.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(token.String()))
	}
	target.SetString(token.String())
	return nil
}
