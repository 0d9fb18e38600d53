package option

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/text"
)

// This file reads the spellings of the command line, which kong does not know:
// one dash, "-np", two words for one option, sections.

// A Given is one option as it stands on the line.
type Given struct {
	*Option
	Spelled string // "-np", as typed
	Value   string
	Section int // from 1; 0: none, it is a default of all
	Word    int // place on the line, from 1
	decoded reflect.Value
	preset  bool
	typed   string // the value as it stood, if Value is made of it
	level   level
	from    string // where it was said: "F:3", "HYDRA_IFACE"; empty: on the line
}

// OnLine reports whether it was said by a word of the command line itself, and so for this run alone.
func (g Given) OnLine() bool { return g.from == "" }

func (g Given) String() string {
	if g.level == environment {
		return g.from + "=" + Quote(cmp.Or(g.typed, g.Value))
	}
	if g.preset || g.takes == "none" {
		return g.Spelled
	}
	if g.takes == "attached" {
		return g.Spelled + "=" + Quote(g.Value)
	}
	return g.Spelled + " " + Quote(cmp.Or(g.typed, g.Value))
}

// Variable is the variable of the environment that gave the option; empty: none did.
func (g Given) Variable() string {
	if g.level == environment {
		return g.from
	}
	return ""
}

// UsageErrors are all faults of a command line, ten at most (CLI-10). They
// unwrap to UsageErrors and to the errors of hostlist.
type UsageErrors []error

func (e UsageErrors) Error() string   { return errors.Join(e...).Error() }
func (e UsageErrors) Unwrap() []error { return e }

// words are the words of one section.
type words struct {
	number int // from 1
	first  int // place of the first one on the line, from 1
	args   []string
	level  level
	from   string // "F:3"; empty: the command line
}

// split cuts the line at lone colons, or at what -separator says (CLI-5).
func split(args []string) ([]words, error) {
	separator, offset := ":", 0
	if len(args) > 0 {
		name, value, attached := strings.Cut(args[0], "=")
		if strings.HasPrefix(name, "-") && normalize(name) == "separator" {
			offset = 1
			if !attached && len(args) > 1 {
				offset, value = 2, args[1]
			}
			if value == "" {
				return nil, &fault.Error{Text: name + " needs a value", Remedy: "write " + name + " STR"}
			}
			separator = value
		}
	}
	var sections []words
	for from := offset; ; {
		end := slices.Index(args[from:], separator)
		if end < 0 {
			return append(sections, words{number: len(sections) + 1, first: from + 1, args: args[from:]}), nil
		}
		sections = append(sections, words{number: len(sections) + 1, first: from + 1, args: args[from : from+end]})
		from += end + 1
	}
}

// scanned is what one section says.
type scanned struct {
	given   []Given
	program []string
	lost    bool // what is a value, what the program? After an unknown option, and where the last word lacks its value
	version bool
	offers  bool // --mpi=list
	help    *Topic
	errs    []error
	notes   []string // of what was said and has no effect
	from    string   // "F:3"; empty: the command line
}

// A Topic is what help was asked about: an option, a heading, or "" for neither.
type Topic struct{ Option string }

// A scanner reads the options of one section.
type scanner struct {
	*Table
	words
	pos int
	scanned
}

// scan reads a section's options up to the program (CLI-4). Where there is none, since the
// words are hosts, options may stand behind them as well.
func (t *Table) scan(w words) scanned {
	s := scanner{Table: t, words: w, scanned: scanned{from: w.from}}
	s.options()
	for !s.lost && s.asksOfHosts() && s.pos < len(w.args) {
		s.program = append(s.program, w.args[s.pos])
		s.pos++
		s.options()
	}
	if !s.lost {
		s.program = append(s.program, w.args[min(s.pos, len(w.args)):]...)
	}
	return s.scanned
}

// options reads those that stand here.
func (s *scanner) options() {
	for s.pos < len(s.args) && strings.HasPrefix(s.args[s.pos], "-") {
		if s.args[s.pos] == "--" {
			s.pos++
			return
		}
		s.option()
	}
}

// asksOfHosts reports whether the words that are no options are hosts, as far as the line was
// read: those of --doctor may be a program if hosts are named otherwise.
func (s *scanner) asksOfHosts() bool {
	return slices.ContainsFunc(s.given, func(g Given) bool {
		return g.asks == "hosts"
	})
}

// option reads one option with its value.
func (s *scanner) option() {
	at := s.pos
	s.pos++
	name, value, attached := strings.Cut(s.args[at], "=")
	if s.extension(s.args[at]) {
		return
	}
	m, known := s.find(name)
	if !known {
		s.unknown(name, attached)
		return
	}
	switch m.Name {
	case "help":
		s.askHelp(value, attached)
	case "version":
		if s.version = true; attached {
			s.fail(name+" takes no value", "")
		}
	case "separator":
		s.fail(name+" is not the first option of the line", "")
		s.pos++
	default:
		g := Given{Option: m.Option, Spelled: name, Value: m.implied, Section: s.number, Word: s.first + at, preset: m.Preset, level: s.level, from: s.words.from}
		if m.global && g.level < globalOnLine {
			g.level += globalOnLine
		}
		s.valued(m, g, value, attached)
	}
}

// valued finds the value of an option: implied, attached, or the next word.
func (s *scanner) valued(m meaning, g Given, value string, attached bool) {
	switch {
	case attached && (m.Preset || m.takes == "none"):
		if err := Removed(normalize(g.Spelled) + "=" + value); err != nil {
			s.errs = append(s.errs, err)
			return
		}
		s.fail(g.Spelled+" takes no value", "")
		return
	case attached:
		g.Value = value
	case m.Preset:
		g.Value = m.Value
	case m.takes == "attached":
		if s.pos < len(s.args) && slices.Contains(m.Words, s.args[s.pos]) {
			s.fail(g.Spelled+" takes its value without a blank", "write "+g.Spelled+"="+s.args[s.pos])
			s.pos++
			return
		}
	case m.takes != "none":
		next, ok := s.next(m, g.Spelled)
		if !ok {
			return
		}
		g.Value = next
	}
	s.pair(m, g)
}

// pair completes NAME VALUE of an option that takes both, and keeps it.
func (s *scanner) pair(m meaning, g Given) {
	if g.takes == "pair" && !strings.Contains(g.Value, "=") {
		if s.pos == len(s.args) {
			s.fail(fmt.Sprintf("%s %s needs a value", g.Spelled, g.Value), fmt.Sprintf("write %s %s=VALUE", g.Spelled, g.Value))
			s.lost = true
			return
		}
		g.Value += "=" + s.args[s.pos]
		s.pos++
	}
	if m.Form != "" {
		g.typed, g.Value = g.Value, m.value(g.Value)
	}
	s.keep(g)
}

// next takes the next word as value of an option. A word that is itself an
// option is not taken for one, except where words of other programs belong.
func (s *scanner) next(m meaning, name string) (string, bool) {
	form := fmt.Sprintf("write %s %s", name, m.Arg)
	if s.pos == len(s.args) {
		s.fail(name+" needs a value", form)
		s.lost = true // no program can follow
		return "", false
	}
	word := s.args[s.pos]
	if word == "-help" || word == "--help" {
		s.help = &Topic{name}
		s.pos++
		return "", false
	}
	if option, _, _ := strings.Cut(word, "="); m.takes != "any" {
		if _, known := s.find(option); known {
			s.fail(fmt.Sprintf("%s needs a value, but the option %s follows", name, option), cmp.Or(m.Hint(), form))
			return "", false
		}
	}
	s.pos++
	return word, true
}

// keep reads an option's value and keeps it.
func (s *scanner) keep(g Given) {
	if g.Name == "pmi" && g.Value == "list" { // srun's way to ask what there is
		s.offers = true
		return
	}
	if err := Removed(g.Name + "=" + g.Value); err != nil {
		s.errs = append(s.errs, err)
		return
	}
	g, there, note := s.parameter(g)
	if note != "" {
		s.notes = append(s.notes, note)
	}
	if !there {
		return
	}
	var err error
	g.decoded, err = s.decode(g.Option, g.Value)
	var hosts hostlist.Errors
	switch {
	case err == nil:
		s.given = append(s.given, g)
	case errors.As(err, &hosts):
		s.errs = append(s.errs, hosts...)
	default:
		s.fail(fmt.Sprintf("%s: %v", g.Spelled, err), g.Hint())
	}
}

func (s *scanner) fail(text, remedy string) {
	s.errs = append(s.errs, &fault.Error{Text: text, Remedy: remedy})
}

// askHelp reads "-help", "-help -OPTION" and "-help=OPTION" (DIAG-10). A bare
// word after it counts if it names an option, or can be searched for.
func (s *scanner) askHelp(value string, attached bool) {
	if !attached && s.pos < len(s.args) {
		word, _, _ := strings.Cut(s.args[s.pos], "=")
		_, known := s.lookup(normalize(word))
		_, topic := s.topicOf(word)
		searched := strings.Trim(word, letters+"_-") == "" && len(word) > 2
		if known || topic || searched || strings.HasPrefix(word, "-") {
			value = word
			s.pos++
		}
	}
	s.help = &Topic{value}
}

// unknown reports an option that there is not (CLI-9), or not any more, or our word for it
// (CLI-15), and finds out where to go on reading.
func (s *scanner) unknown(dashed string, attached bool) {
	name := normalize(dashed)
	values := -1
	if err := Removed(name); err != nil {
		values = 0
		s.errs = append(s.errs, err)
	} else if r, ok := s.refused(dashed); ok {
		values = r.values
		s.refuse(dashed, r)
	} else if apart := s.apart(dashed); apart != "" {
		values = 0
		s.fail("unknown option "+Quote(dashed), "write "+apart)
	} else {
		s.fail("unknown option "+Quote(dashed)+s.near(name), s.name+" --help lists what there is")
	}
	switch {
	case attached:
	case values >= 0:
		s.pos = min(s.pos+values, len(s.args))
	case s.pos < len(s.args) && !strings.HasPrefix(s.args[s.pos], "-"):
		s.pos, s.lost = len(s.args), true
	case s.pos == len(s.args):
		s.lost = true
	}
}

// apart writes an option whose number stands at it, -n4 as with srun, as the two words that it is; empty: it is none.
func (t *Table) apart(dashed string) string {
	name := strings.TrimRight(dashed, "0123456789")
	m, known := t.find(name)
	if name == dashed || !known || m.Preset || len(m.Arg) != 1 {
		return ""
	}
	return name + " " + dashed[len(name):]
}

// An ignorable fault is only worth a warning with --lenient.
type ignorable struct{ of *fault.Error }

func (e ignorable) Error() string { return e.of.Error() }

// refuse answers an option of another launcher.
func (s *scanner) refuse(dashed string, r refusal) {
	answer := dashed + " " + r.answer
	switch r.grade {
	case refused:
		s.fail(answer, "")
	case lenient:
		s.errs = append(s.errs, ignorable{&fault.Error{Text: answer, Remedy: "leave it out, or add --lenient"}})
	case unneeded:
		s.notes = append(s.notes, answer+"; not needed")
	}
}

// near names the options a wrong one resembles: those at the smallest edit
// distance, two at most, and less for short names.
func (t *Table) near(name string) string {
	best := min(2, len(name)/2)
	var found []string
	for _, o := range t.options {
		for _, sp := range append([]Spelling{{Dashed: o.Dashed}}, o.Also...) {
			known := normalize(sp.Dashed)
			d := text.Distance(name, known)
			if d > best || d >= len(known) && d > 0 && len(known) > 1 {
				continue
			}
			if d < best {
				best, found = d, nil
			}
			found = append(found, sp.Dashed)
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	if found = slices.Compact(found); len(found) > 3 {
		found = found[:3]
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(found, " or "))
}

// Takes is how many words the option at the beginning of args takes, itself included.
func (t *Table) Takes(args []string) int {
	s := scanner{Table: t, words: words{number: 1, first: 1, args: args}}
	s.option()
	return s.pos
}

// schedulerKeys are what may stand behind -l as a scheduler's job scripts have it, and the options that mean it.
var schedulerKeys = [][2]string{
	{"nodeset", "node-set"}, {"nodesetisoptional", "node-set-optional"}, {"nodesettolerance", "node-set-tolerance"},
	{"nodesetprioritytype", "node-set-priority"}, {"nodesetplus", "node-set-plus"}, {"nodesetdelay", "node-set-delay"},
}

// extension reads -l nodeset=SPEC[,nodesetdelay=T]... (which-hosts.md 4.1), where it stands: -l alone labels
// lines, so the next word has to begin with nodeset and to have a value.
func (s *scanner) extension(name string) bool {
	if name != "-l" || s.pos == len(s.args) || len(s.args[s.pos]) < len("nodeset") ||
		!strings.EqualFold(s.args[s.pos][:len("nodeset")], "nodeset") || !strings.Contains(s.args[s.pos], "=") {
		return false
	}
	at := s.pos
	s.pos++
	for _, pair := range schedulerPairs(s.args[at]) {
		i := slices.IndexFunc(schedulerKeys, func(k [2]string) bool { return strings.EqualFold(k[0], pair[0]) })
		if i < 0 {
			s.fail(fmt.Sprintf("-l: unknown word %q", pair[0]), "of the scheduler's words there are nodeset, nodesetisoptional, nodesettolerance, nodesetprioritytype, nodesetplus and nodesetdelay")
			continue
		}
		m := s.names[schedulerKeys[i][1]]
		s.keep(Given{Option: m.Option, Spelled: "-l " + pair[0], Value: pair[1], Section: s.number, Word: s.first + at, level: s.level, from: s.words.from})
	}
	return true
}

// schedulerPairs cuts a=b,c,d=e into a=b,c and d=e: a piece without = belongs to the value before it.
func schedulerPairs(text string) (pairs [][2]string) {
	for piece := range strings.SplitSeq(text, ",") {
		name, value, named := strings.Cut(piece, "=")
		if !named && pairs != nil {
			pairs[len(pairs)-1][1] += "," + piece
			continue
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs
}
