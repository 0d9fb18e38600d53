/*
Package option parses the command line. It contains the table of options, the grammar and the types of values. From the
table it generates help, the manual page, completions and doc/options.md.

	args --split--> app contexts --scan--> options as given, each decoded
	                                                  |
	-configfile, variables, user's configuration -----+--> inherit --> Line

The package performs no I/O. Its only inputs are the arguments, Sources and the signal numbers. Callers use the Line and
never read the arguments themselves. Each front end of the program (mpiexec, mpijob) has a Table and a function that
builds a Line.
*/
package option

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
)

// Scope says to which part of the command line an option applies: to one app context or to the whole job.
type Scope int

const (
	PerApp    Scope = iota // S: its app context
	Inherited              // F: its app context; from the first one, the others inherit it
	PerJob                 // J: the whole job, wherever it is given
)

// topicOf returns the help heading whose first word is word, ignoring case.
func (t *Table) topicOf(word string) (topic string, ok bool) {
	for _, topic := range t.topics {
		if first, _, _ := strings.Cut(topic, " "); strings.EqualFold(first, word) {
			return topic, true
		}
	}
	return "", false
}

// byTopic groups all options by the headings of the help. An option without a topic belongs to the heading
// that its tag "under" names or, without such a tag, to the heading of the option before it.
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

// concernsRun reports whether the option affects how a program runs. It returns false for options that only
// report something, name the cluster, or say how to reach hosts.
func (o *Option) concernsRun() bool {
	if slices.Contains([]string{"cluster", "ledger", "exclude", "localhost", "rmk", "batch-option", "allow-outside", "separator"}, o.Name) {
		return false
	}
	for topic, options := range o.table.byTopic() {
		if slices.Contains(options, o) {
			return topic != "Reports and queries" && topic != "Reaching hosts"
		}
	}
	return false
}

// An Option is one option of the command line. It is a row of the table of options.
type Option struct {
	Name           string // canonical: no dashes, lower case unless it is one letter
	Dashed         string // canonical, with dashes: "-host", "--fanout"
	OtherSpellings []Spelling
	Arg            string // empty for a switch
	Words          []string
	Scope          Scope

	table            *Table
	declaredIn       reflect.Type // the struct that has it as a field
	valueForm        string       // "", "none", "pair", "attached", "any"
	readVariables    []string     // variables that another package reads
	rivalGroup       string       // group of alternative options; empty: none
	query            string       // "", "yes", "hosts", "job": the tag asks
	foreignVariables string       // variables of other launchers, separated by blanks
	mcaParameters    []string     // parameters of Open MPI's launcher
	oneDashAdvice    string       // not empty: with one dash it is an option of another launcher; see the tag onedash
	impliedValue     string
	minimum          int
	zeroAllowed      bool
	accumulates      bool // each occurrence adds to a list (CLI-8)
	lastWins         bool
	addsUp           bool // values of several levels add up
	field            reflect.StructField
}

// These read the tag when they are called, since only help and messages need them.

func (o *Option) Topic() string    { return o.field.Tag.Get("topic") }
func (o *Option) Help() string     { return withRows(o.field.Tag.Get("help")) }
func (o *Option) LongHelp() string { return withRows(o.table.texts()[o.Dashed]) }
func (o *Option) Hint() string     { return o.field.Tag.Get("hint") }

// Default returns the default value, or "" if there is none.
func (o *Option) Default() string { return o.field.Tag.Get("default") }

// A Spelling is another name of an option.
type Spelling struct {
	Dashed string
	Preset bool   // the spelling fixes the value, so none may be given
	Value  string // the fixed value if Preset
	Form   string // template of the value, in which % is replaced by the given text; empty: the text itself
}

// argument returns the placeholder for a value, which help prints after the spelling.
func (s Spelling) argument() string {
	if s.Form == "" {
		return ""
	}
	return " " + s.placeholder()
}

// placeholder returns the placeholder for the text that the user must add to this spelling: N for a number of ranks,
// or VALUE.
func (s Spelling) placeholder() string {
	if s.takesNumber() {
		return "N"
	}
	return "VALUE"
}

// takesNumber reports whether the user must write a number of ranks after the spelling, as in -npersocket 2.
func (s Spelling) takesNumber() bool { return strings.HasPrefix(s.Form, "ppr:%") }

// checkText checks the text after the option's name. It returns an error if this spelling needs a number and
// the text is not a number, or the number is too small.
func (s Spelling) checkText(text string) error {
	if !s.takesNumber() {
		return nil
	}
	switch n, err := strconv.Atoi(text); {
	case err != nil:
		return fmt.Errorf("%q is not a number", text)
	case n < 1:
		return fmt.Errorf("%d is too small; the smallest value is 1", n)
	}
	return nil
}

// value returns the value that the option gets when the user writes this spelling followed by text.
func (s Spelling) value(text string) string {
	if s.Form == "" {
		return text
	}
	return strings.Replace(s.Form, "%", text, 1)
}

// A Table contains the options of one program name (mpiexec or mpijob), and the function that builds a Line from the
// parsed options. Code that uses a Line need not know which program name was used.
type Table struct {
	name     string   // of the front end, as the user types it
	topics   []string // headings of help, in order; -help TOPIC takes their first words
	refusals []refusal
	makeLine func(t *Table, apps []scannedApp, sources Sources) (Line, error)

	options []*Option
	names   map[string]namedOption
	texts   func() map[string]string // longer help, by canonical spelling with dashes
	mappers *kong.Registry
}

// A namedOption is an option together with the name that the user has written.
type namedOption struct {
	*Option
	Spelling
	global bool // the name is the global form: -gwdir
}

// newTable returns a table without options. texts and moreTexts are long help texts in the form that
// parseParagraphs reads.
func newTable(name, texts string, moreTexts ...string) *Table {
	return &Table{
		name: name, mappers: newMappers(), options: make([]*Option, 0, 256), names: make(map[string]namedOption, 256),
		texts: sync.OnceValue(func() map[string]string {
			return parseParagraphs(texts + strings.Join(moreTexts, ""))
		}),
	}
}

// addOptions adds an option for each field of a struct type. It uses reflection. For all options of mpiexec
// this takes about 60 µs in each run.
func (t *Table) addOptions(structType reflect.Type, scope Scope) {
	for i := range structType.NumField() {
		t.insertOption(len(t.options), optionOf(structType, i, scope))
	}
}

// insertOption adds an option to the table. at is its index in the list of options.
func (t *Table) insertOption(at int, o *Option) {
	o.table = t
	t.options = slices.Insert(t.options, at, o)
	t.names[o.Name] = namedOption{Option: o, Spelling: Spelling{Dashed: o.Dashed}}
	for _, s := range o.OtherSpellings {
		t.names[normalize(s.Dashed)] = namedOption{Option: o, Spelling: s}
	}
}

// parseParagraphs parses long help texts. In each of them, the option's name is on its own line, and the text follows
// on indented lines.
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

// rivals returns the options that are alternatives to o. An option overrides its alternatives of lower precedence. For
// example, an option on the command line overrides alternatives in variables and files.
func (o *Option) rivals() (rivals []*Option) {
	for _, other := range o.table.options {
		if o.rivalGroup != "" && other.rivalGroup == o.rivalGroup && other != o {
			rivals = append(rivals, other)
		}
	}
	return rivals
}

// optionOf returns the option that a field of a struct declares. field is the index of the field.
func optionOf(structType reflect.Type, field int, scope Scope) *Option {
	f := structType.Field(field)
	o := &Option{
		Scope: scope, declaredIn: structType, field: f, minimum: 1,
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
		case "onedash":
			o.oneDashAdvice = value
		case "asks":
			o.query = value
		case "implied":
			o.impliedValue = value
		case "words":
			o.Words = strings.Split(withRows(value), ",")
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

// tagPairs iterates over the key:"value" pairs of a struct tag. It scans the tag only once, whereas StructTag.Get would
// scan the whole help text for each missing key. It does not support escapes in values; a test checks that there are
// none.
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

// normalize returns a spelling without leading dashes. In names with two or more letters it also replaces
// capitals by small letters and "_" by "-" (rule CLI-3).
func normalize(dashed string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(dashed, "-"), "-")
	if len(name) < 2 {
		return name
	}
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// findSpelling returns the option that a word with dashes, such as "-np" or "--hostFile", stands for. It does not
// recognize a few names with one dash, because these are options of other launchers (the tag onedash).
func (t *Table) findSpelling(dashed string) (namedOption, bool) {
	name := normalize(dashed)
	m, ok := t.findName(name)
	return m, ok && strings.HasPrefix(dashed, "-") && (strings.HasPrefix(dashed, "--") || m.oneDashAdvice == "")
}

// findName returns the option with a normalized name. A name such as genv, which is not in the table, stands for the
// option env, applied to all app contexts.
func (t *Table) findName(name string) (m namedOption, ok bool) {
	if m, ok = t.names[name]; ok {
		return m, true
	}
	local, is := strings.CutPrefix(name, "g")
	m, ok = t.names[local]
	m.global = true
	return m, is && ok && m.Scope != PerJob && m.Name != "configfile"
}
