/*
Package option reads a command line: it has the table of options, its grammar, its values,
and what is made of it (help, the manual page, completions, the manual's reference).

	args --split--> sections --scan--> options as given, each decoded
	                                              |
	-configfile, variables, user's configuration -+--> inherit --> Line

It is pure: what it knows of the world are Sources, and the numbers of signals. Whoever calls
it reads a Line, and never the words of it. Another personality of the program is another
Table and another function that makes a Line of what was given.
*/
package option

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
)

// Scope says how far an option reaches.
type Scope int

const (
	PerApp    Scope = iota // S: its section
	Inherited              // F: the first section's is everybody's default
	PerJob                 // J: the job, wherever it stands
)

// topicOf finds the heading that -help TOPIC means.
func (t *Table) topicOf(word string) (topic string, ok bool) {
	for _, topic := range t.topics {
		if first, _, _ := strings.Cut(topic, " "); strings.EqualFold(first, word) {
			return topic, true
		}
	}
	return "", false
}

// byTopic lists all options under their topics: one without a topic stands under that of
// the option before it, unless it names another.
func (t *Table) byTopic() map[string][]*Option {
	under := make(map[string][]*Option, len(t.topics))
	topic := ""
	for _, o := range t.options {
		topic = cmp.Or(o.Topic(), topic)
		at := cmp.Or(o.Topic(), o.field.Tag.Get("under"), topic)
		under[at] = append(under[at], o)
	}
	return under
}

// concernsRun reports whether an option says how a program is to be run. Others tell something, or say which cluster it is and how
// hosts are reached.
func (o *Option) concernsRun() bool {
	if slices.Contains([]string{"cluster", "ledger", "exclude", "localhost", "rmk", "batch-option", "allow-outside", "separator"}, o.Name) {
		return false
	}
	for topic, options := range o.table.byTopic() {
		if slices.Contains(options, o) {
			return topic != "Telling" && topic != "Reaching hosts"
		}
	}
	return false
}

// An Option is one row of the table.
type Option struct {
	Name           string // canonical: lower case unless one letter, no dashes
	Dashed         string // as we write it: "-host", "--fanout"
	OtherSpellings []Spelling
	Arg            string // "": a switch
	Words          []string
	Scope          Scope

	table            *Table
	valueForm        string   // "", "none", "pair", "attached", "any"
	readVariables    []string // variables that are read where they are used
	rivalGroup       string   // what it says, if others may say it too
	query            string   // "", "yes", "hosts", "job"
	foreignVariables string   // variables of other launchers, between blanks
	mcaParameters    []string // parameters of Open MPI's launcher
	impliedValue     string
	minimum          int
	zeroAllowed      bool
	accumulates      bool // accumulates (CLI-8)
	lastWins         bool
	addsUp           bool // what several places say adds up
	field            reflect.StructField
}

// What only help and messages need is read when they do.

func (o *Option) Topic() string    { return o.field.Tag.Get("topic") }
func (o *Option) Help() string     { return withSystems(o.field.Tag.Get("help")) }
func (o *Option) LongHelp() string { return withSystems(o.table.texts()[o.Dashed]) }
func (o *Option) Hint() string     { return o.field.Tag.Get("hint") }

// Default is what holds if nobody says anything; empty: nothing.
func (o *Option) Default() string { return o.field.Tag.Get("default") }

// A Spelling is another way to write an option.
type Spelling struct {
	Dashed string
	Preset bool   // the value is fixed and none may be given
	Value  string // if Preset
	Form   string // what a value comes to that is given, in the place of the %; empty: to itself
}

// argument is how help writes the value that the spelling takes.
func (s Spelling) argument() string {
	if s.Form == "" {
		return ""
	}
	return " VALUE"
}

// value is what a text that is given with this spelling comes to.
func (s Spelling) value(text string) string {
	if s.Form == "" {
		return text
	}
	return strings.Replace(s.Form, "%", text, 1)
}

// A Table is the options of a personality of this program, by any spelling, and what makes
// a Line of those that are given: personalities differ in both, and nothing behind the Line
// knows which one it was.
type Table struct {
	name     string   // as the user calls it
	topics   []string // the headings of help, in its order; -help calls them by their first words
	refusals []refusal
	makeLine func(t *Table, sections []scannedApp, from Sources) (Line, error)

	options []*Option
	names   map[string]namedOption
	texts   func() map[string]string // by the option as we write it
	mappers *kong.Registry
}

// namedOption is what a normalized name stands for.
type namedOption struct {
	*Option
	Spelling
	global bool // the name is that of the global form: -gwdir
}

// newTable is a table without options; texts say more of them than their lines of help.
func newTable(name, texts string) *Table {
	return &Table{
		name: name, mappers: newMappers(), names: make(map[string]namedOption, 256),
		texts: sync.OnceValue(func() map[string]string { return parseParagraphs(texts) }),
	}
}

// addOptions reads a struct of options: reflection once in a run, some 60 µs for all of mpiexec's.
func (t *Table) addOptions(of reflect.Type, scope Scope) {
	for i := range of.NumField() {
		o := optionOf(of.Field(i), scope)
		o.table = t
		t.options = append(t.options, o)
		t.names[o.Name] = namedOption{Option: o, Spelling: Spelling{Dashed: o.Dashed}}
		for _, s := range o.OtherSpellings {
			t.names[normalize(s.Dashed)] = namedOption{Option: o, Spelling: s}
		}
	}
}

// parseParagraphs reads texts: a name on a line of its own, and below it, indented, what it means.
func parseParagraphs(text string) map[string]string {
	found := make(map[string]string)
	name := ""
	for line := range strings.Lines(text) {
		words := strings.TrimSpace(line)
		switch {
		case words == "" || line[0] == '#':
		case line[0] != ' ':
			name = words
		default:
			found[name] = strings.TrimSpace(found[name] + " " + words)
		}
	}
	return found
}

// rivals lists the options that say the same thing as one, in different words. One of them
// hides the others of lower levels; on one level they may contradict one another.
func (o *Option) rivals() (rivals []*Option) {
	for _, other := range o.table.options {
		if o.rivalGroup != "" && other.rivalGroup == o.rivalGroup && other != o {
			rivals = append(rivals, other)
		}
	}
	return rivals
}

func optionOf(f reflect.StructField, scope Scope) *Option {
	o := &Option{
		Scope: scope, field: f, minimum: 1,
		accumulates: f.Type.Kind() == reflect.Slice && f.Type != reflect.TypeFor[ShellWords](),
	}
	for key, value := range tagPairs(f.Tag) {
		switch key {
		case "name":
			o.Dashed, o.Name = value, normalize(value)
		case "also":
			for word := range strings.FieldsSeq(value) {
				name, value, preset := strings.Cut(word, "=")
				s := Spelling{name, preset, value, ""}
				if strings.Contains(value, "%") {
					s = Spelling{Dashed: name, Form: value}
				}
				o.OtherSpellings = append(o.OtherSpellings, s)
			}
		case "arg":
			o.Arg = value
		case "takes":
			o.valueForm = value
		case "env":
			o.foreignVariables = value
		case "mca":
			o.mcaParameters = strings.Fields(value)
		case "read":
			o.readVariables = strings.Fields(value)
		case "rival":
			o.rivalGroup = value
		case "asks":
			o.query = value
		case "implied":
			o.impliedValue = value
		case "words":
			o.Words = strings.Split(withSystems(value), ",")
		case "least":
			o.minimum, _ = strconv.Atoi(value)
		case "zero":
			o.zeroAllowed = true
		case "repeat":
			o.lastWins, o.addsUp = value == "last", value == "sum"
		}
	}
	if o.Arg == "" {
		o.valueForm = "none"
		if f.Type.Kind() == reflect.Bool {
			o.impliedValue = "true"
		}
	}
	return o
}

// tagPairs yields the key:"value" pairs of a tag in one pass. StructTag.Get would
// go through the whole help text for each key that is not there. Our tags have
// no escapes in them; a test sees to that.
func tagPairs(tag reflect.StructTag) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		rest := string(tag)
		for {
			key, after, ok := strings.Cut(rest, `:"`)
			if !ok {
				return
			}
			value, after, _ := strings.Cut(after, `"`)
			if !yield(key, value) {
				return
			}
			rest = strings.TrimPrefix(after, " ")
		}
	}
}

// normalize makes spellings comparable: no dashes in front, and, from two
// letters on, lower case with "-" for "_" (CLI-3).
func normalize(dashed string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(dashed, "-"), "-")
	if len(name) < 2 {
		return name
	}
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// lookUp looks a word such as "-np" or "--hostFile" up.
func (t *Table) lookUp(dashed string) (namedOption, bool) {
	name := normalize(dashed)
	m, ok := t.lookup(name)
	return m, ok && strings.HasPrefix(dashed, "-") && (strings.HasPrefix(dashed, "--") || !slices.Contains(singleDashRefusals, name))
}

// lookup finds a normalized name. One that begins with g and is not in the table is the global form of an option of an app context.
func (t *Table) lookup(name string) (m namedOption, ok bool) {
	if m, ok = t.names[name]; ok {
		return m, true
	}
	local, is := strings.CutPrefix(name, "g")
	m, ok = t.names[local]
	m.global = true
	return m, is && ok && m.Scope != PerJob && m.Name != "configfile"
}
