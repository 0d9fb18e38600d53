package option

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/text"
	"remshell/usererr"
)

// This file reads the spellings of the command line, which kong does not know:
// one dash, "-np", two words for one option, sections.

// A GivenOption is one option as it stands on the line.
type GivenOption struct {
	*Option
	Spelled    string // "-np", as typed
	Value      string
	AppNumber  int // from 1; 0: none, it is a default of all
	Position   int // place on the line, from 1
	decoded    reflect.Value
	preset     bool
	typed      string // the value as it stood, if Value is made of it
	precedence precedence
	source     string // where it was said: "F:3", "HYDRA_IFACE"; empty: on the line
}

// OnLine reports whether it was said by a word of the command line itself, and so for this run alone.
func (g GivenOption) OnLine() bool { return g.source == "" }

func (g GivenOption) String() string {
	if g.precedence == fromEnvironment {
		return g.source + "=" + ShellQuote(cmp.Or(g.typed, g.Value))
	}
	if g.preset || g.valueForm == "none" {
		return g.Spelled
	}
	if g.valueForm == "attached" {
		return g.Spelled + "=" + ShellQuote(g.Value)
	}
	return g.Spelled + " " + ShellQuote(cmp.Or(g.typed, g.Value))
}

// Variable is the variable of the environment that gave the option; empty: none did.
func (g GivenOption) Variable() string {
	if g.precedence == fromEnvironment {
		return g.source
	}
	return ""
}

// UsageErrors are all faults of a command line, ten at most (CLI-10). They
// unwrap to UsageErrors and to the errors of hostlist.
type UsageErrors []error

func (e UsageErrors) Error() string   { return errors.Join(e...).Error() }
func (e UsageErrors) Unwrap() []error { return e }

// appWords are the words of one section.
type appWords struct {
	number     int // from 1
	position   int // place of the first one on the line, from 1
	args       []string
	precedence precedence
	from       string // "F:3"; empty: the command line
}

// splitApps cuts the line at lone colons, or at what -separator says (CLI-5).
func splitApps(args []string) ([]appWords, error) {
	separator, offset := ":", 0
	if len(args) > 0 {
		name, value, attached := strings.Cut(args[0], "=")
		if strings.HasPrefix(name, "-") && normalize(name) == "separator" {
			offset = 1
			if !attached && len(args) > 1 {
				offset, value = 2, args[1]
			}
			if value == "" {
				return nil, &usererr.Error{Text: name + " needs a value", Remedy: "write " + name + " STR"}
			}
			separator = value
		}
	}
	var sections []appWords
	for from := offset; ; {
		end := slices.Index(args[from:], separator)
		if end < 0 {
			return append(sections, appWords{number: len(sections) + 1, position: from + 1, args: args[from:]}), nil
		}
		sections = append(sections, appWords{number: len(sections) + 1, position: from + 1, args: args[from : from+end]})
		from += end + 1
	}
}

// scannedApp is what one section says.
type scannedApp struct {
	given      []GivenOption
	program    []string
	unparsable bool // what is a value, what the program? After an unknown option, and where the last word lacks its value
	version    bool
	listPMI    bool // --mpi=list
	help       *HelpTopic
	errs       []error
	notes      []string // of what was said and has no effect
	from       string   // "F:3"; empty: the command line
}

// A HelpTopic is what help was asked about: an option, a heading, or "" for neither.
type HelpTopic struct{ Option string }

// A scanner reads the options of one section.
type scanner struct {
	*Table
	appWords
	pos int
	scannedApp
}

// scan reads a section's options up to the program (CLI-4). Where there is none, since the
// words are hosts, options may stand behind them as well.
func (t *Table) scan(w appWords) scannedApp {
	s := scanner{Table: t, appWords: w, scannedApp: scannedApp{from: w.from}}
	s.scanOptions()
	for !s.unparsable && s.namesHostsOnly() && s.pos < len(w.args) {
		s.program = append(s.program, w.args[s.pos])
		s.pos++
		s.scanOptions()
	}
	if !s.unparsable {
		s.program = append(s.program, w.args[min(s.pos, len(w.args)):]...)
	}
	return s.scannedApp
}

// scanOptions reads those that stand here.
func (s *scanner) scanOptions() {
	for s.pos < len(s.args) && strings.HasPrefix(s.args[s.pos], "-") {
		if s.args[s.pos] == "--" {
			s.pos++
			return
		}
		s.scanOption()
	}
}

// namesHostsOnly reports whether the words that are no options are hosts, as far as the line was
// read: those of --doctor may be a program if hosts are named otherwise.
func (s *scanner) namesHostsOnly() bool {
	return slices.ContainsFunc(s.given, func(g GivenOption) bool {
		return g.query == "hosts"
	})
}

// scanOption reads one option with its value.
func (s *scanner) scanOption() {
	at := s.pos
	s.pos++
	name, value, attached := strings.Cut(s.args[at], "=")
	if s.scanSchedulerOption(s.args[at]) {
		return
	}
	m, known := s.lookUp(name)
	if !known {
		s.refuseUnknown(name, attached)
		return
	}
	switch m.Name {
	case "help":
		s.scanHelp(value, attached)
	case "version":
		if s.version = true; attached {
			s.addError(name+" takes no value", "")
		}
	case "separator":
		s.addError(name+" is not the first option of the line", "")
		s.pos++
	default:
		g := GivenOption{Option: m.Option, Spelled: name, Value: m.impliedValue, AppNumber: s.number, Position: s.position + at, preset: m.Preset, precedence: s.precedence, source: s.appWords.from}
		if m.global && g.precedence < globalOnLine {
			g.precedence += globalOnLine
		}
		s.scanValue(m, g, value, attached)
	}
}

// scanValue finds the value of an option: implied, attached, or the next word.
func (s *scanner) scanValue(m namedOption, g GivenOption, value string, attached bool) {
	switch {
	case attached && (m.Preset || m.valueForm == "none"):
		if err := RemovedError(normalize(g.Spelled) + "=" + value); err != nil {
			s.errs = append(s.errs, err)
			return
		}
		s.addError(g.Spelled+" takes no value", "")
		return
	case attached:
		g.Value = value
	case m.Preset:
		g.Value = m.Value
	case m.valueForm == "attached":
		if s.pos < len(s.args) && slices.Contains(m.Words, s.args[s.pos]) {
			s.addError(g.Spelled+" takes its value without a blank", "write "+g.Spelled+"="+s.args[s.pos])
			s.pos++
			return
		}
	case m.valueForm != "none":
		next, ok := s.nextValue(m, g.Spelled)
		if !ok {
			return
		}
		g.Value = next
	}
	s.scanPair(m, g)
}

// scanPair completes NAME VALUE of an option that takes both, and keeps it.
func (s *scanner) scanPair(m namedOption, g GivenOption) {
	if g.valueForm == "pair" && !strings.Contains(g.Value, "=") {
		if s.pos == len(s.args) {
			s.addError(fmt.Sprintf("%s %s needs a value", g.Spelled, g.Value), fmt.Sprintf("write %s %s=VALUE", g.Spelled, g.Value))
			s.unparsable = true
			return
		}
		g.Value += "=" + s.args[s.pos]
		s.pos++
	}
	if m.Form != "" {
		g.typed, g.Value = g.Value, m.value(g.Value)
	}
	s.keepOption(g)
}

// nextValue takes the next word as value of an option. A word that is itself an
// option is not taken for one, except where words of other programs belong.
func (s *scanner) nextValue(m namedOption, name string) (string, bool) {
	form := fmt.Sprintf("write %s %s", name, m.Arg)
	if s.pos == len(s.args) {
		s.addError(name+" needs a value", form)
		s.unparsable = true // no program can follow
		return "", false
	}
	word := s.args[s.pos]
	if word == "-help" || word == "--help" {
		s.help = &HelpTopic{name}
		s.pos++
		return "", false
	}
	if option, _, _ := strings.Cut(word, "="); m.valueForm != "any" {
		if _, known := s.lookUp(option); known {
			s.addError(fmt.Sprintf("%s needs a value, but the option %s follows", name, option), cmp.Or(m.Hint(), form))
			return "", false
		}
	}
	s.pos++
	return word, true
}

// keepOption reads an option's value and keeps it.
func (s *scanner) keepOption(g GivenOption) {
	if g.Name == "pmi" && g.Value == "list" { // srun's way to ask what there is
		s.listPMI = true
		return
	}
	if err := RemovedError(g.Name + "=" + g.Value); err != nil {
		s.errs = append(s.errs, err)
		return
	}
	g, there, note := s.translateParameter(g)
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
		s.addError(fmt.Sprintf("%s: %v", g.Spelled, err), g.Hint())
	}
}

func (s *scanner) addError(text, remedy string) {
	s.errs = append(s.errs, &usererr.Error{Text: text, Remedy: remedy})
}

// scanHelp reads "-help", "-help -OPTION" and "-help=OPTION" (DIAG-10). A bare
// word after it counts if it names an option, or can be searched for.
func (s *scanner) scanHelp(value string, attached bool) {
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
	s.help = &HelpTopic{value}
}

// refuseUnknown reports an option that there is not (CLI-9), or not any more, or our word for it
// (CLI-15), and finds out where to go on reading.
func (s *scanner) refuseUnknown(dashed string, attached bool) {
	name := normalize(dashed)
	values := -1
	if err := RemovedError(name); err != nil {
		values = 0
		s.errs = append(s.errs, err)
	} else if r, ok := s.refusalOf(dashed); ok {
		values = r.valueWords
		s.refuseForeign(dashed, r)
	} else if apart := s.apart(dashed); apart != "" {
		values = 0
		s.addError("unknown option "+ShellQuote(dashed), "write "+apart)
	} else {
		s.addError("unknown option "+ShellQuote(dashed)+s.suggest(name), s.name+" --help lists what there is")
	}
	switch {
	case attached:
	case values >= 0:
		s.pos = min(s.pos+values, len(s.args))
	case s.pos < len(s.args) && !strings.HasPrefix(s.args[s.pos], "-"):
		s.pos, s.unparsable = len(s.args), true
	case s.pos == len(s.args):
		s.unparsable = true
	}
}

// apart writes an option whose number stands at it, -n4 as with srun, as the two words that it is; empty: it is none.
func (t *Table) apart(dashed string) string {
	name := strings.TrimRight(dashed, "0123456789")
	m, known := t.lookUp(name)
	if name == dashed || !known || m.Preset || len(m.Arg) != 1 {
		return ""
	}
	return name + " " + dashed[len(name):]
}

// A lenientError fault is only worth a warning with --lenient.
type lenientError struct{ err *usererr.Error }

func (e lenientError) Error() string { return e.err.Error() }

// refuseForeign answers an option of another launcher.
func (s *scanner) refuseForeign(dashed string, r refusal) {
	answer := dashed + " " + r.advice
	switch r.grade {
	case gradeError:
		s.addError(answer, "")
	case gradeLenient:
		s.errs = append(s.errs, lenientError{&usererr.Error{Text: answer, Remedy: "leave it out, or add --lenient"}})
	case gradeUnneeded:
		s.notes = append(s.notes, answer+"; not needed")
	}
}

// suggest names the options a wrong one resembles: those at the smallest edit
// distance, two at most, and less for short names.
func (t *Table) suggest(name string) string {
	best := min(2, len(name)/2)
	var found []string
	for _, o := range t.options {
		for _, sp := range append([]Spelling{{Dashed: o.Dashed}}, o.OtherSpellings...) {
			known := normalize(sp.Dashed)
			d := text.EditDistance(name, known)
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

// CountWords is how many words the option at the beginning of args takes, itself included.
func (t *Table) CountWords(args []string) int {
	s := scanner{Table: t, appWords: appWords{number: 1, position: 1, args: args}}
	s.scanOption()
	return s.pos
}

// schedulerKeys are what may stand behind -l as a scheduler's job scripts have it, and the options that mean it.
var schedulerKeys = [][2]string{
	{"nodeset", "node-set"}, {"nodesetisoptional", "node-set-optional"}, {"nodesettolerance", "node-set-tolerance"},
	{"nodesetprioritytype", "node-set-priority"}, {"nodesetplus", "node-set-plus"}, {"nodesetdelay", "node-set-delay"},
}

// scanSchedulerOption reads -l nodeset=SPEC[,nodesetdelay=T]... (which-hosts.md 4.1), where it stands: -l alone labels
// lines, so the next word has to begin with nodeset and to have a value.
func (s *scanner) scanSchedulerOption(name string) bool {
	if name != "-l" || s.pos == len(s.args) || len(s.args[s.pos]) < len("nodeset") ||
		!strings.EqualFold(s.args[s.pos][:len("nodeset")], "nodeset") || !strings.Contains(s.args[s.pos], "=") {
		return false
	}
	at := s.pos
	s.pos++
	for _, pair := range schedulerPairs(s.args[at]) {
		i := slices.IndexFunc(schedulerKeys, func(k [2]string) bool { return strings.EqualFold(k[0], pair[0]) })
		if i < 0 {
			s.addError(fmt.Sprintf("-l: unknown word %q", pair[0]), "of the scheduler's words there are nodeset, nodesetisoptional, nodesettolerance, nodesetprioritytype, nodesetplus and nodesetdelay")
			continue
		}
		m := s.names[schedulerKeys[i][1]]
		s.keepOption(GivenOption{Option: m.Option, Spelled: "-l " + pair[0], Value: pair[1], AppNumber: s.number, Position: s.position + at, precedence: s.precedence, source: s.appWords.from})
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
