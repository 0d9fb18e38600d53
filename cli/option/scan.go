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

// This file parses forms of the command line that kong does not support: one dash, "-np", two words for one
// option, app contexts.

// A GivenOption is one occurrence of an option, on the command line, in a file or in a variable.
type GivenOption struct {
	*Option
	Spelled    string // as typed: "-np"
	Value      string
	AppNumber  int // app context, from 1; 0: a default of all
	Position   int // index of the word on the line, from 1
	decoded    reflect.Value
	preset     bool
	typed      string // the value as typed, if Value was derived from it
	precedence precedence
	source     string // place of the option: "F:3", "HYDRA_IFACE"; empty: the command line
}

// OnLine reports whether the option is on the command line itself, not in the environment or a file.
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

// Variable returns the environment variable that has given the option, or "".
func (g GivenOption) Variable() string {
	if g.precedence == fromEnvironment {
		return g.source
	}
	return ""
}

// UsageErrors are the errors of a command line, at most ten (rule CLI-10). Unwrap returns the individual errors,
// including the errors that package hostlist has found.
type UsageErrors []error

func (e UsageErrors) Error() string   { return errors.Join(e...).Error() }
func (e UsageErrors) Unwrap() []error { return e }

// An appWords contains the words of one app context.
type appWords struct {
	number     int // from 1
	position   int // index of the first word on the line, from 1
	args       []string
	precedence precedence
	from       string // "F:3"; empty: the command line
}

// splitApps splits the line at each word ":", or at each occurrence of the word that -separator names (rule CLI-5).
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
	var apps []appWords
	for from := offset; ; {
		end := slices.Index(args[from:], separator)
		if end < 0 {
			return append(apps, appWords{number: len(apps) + 1, position: from + 1, args: args[from:]}), nil
		}
		apps = append(apps, appWords{number: len(apps) + 1, position: from + 1, args: args[from : from+end]})
		from += end + 1
	}
}

// A scannedApp contains the options and the program of one app context, as scan has read them.
type scannedApp struct {
	given      []GivenOption
	program    []string
	unparsable bool // the program cannot be told from values: after an unknown option, or if the last option lacks its value
	noProgram  bool // a missing program is no fault of its own: an option was removed, or a query has a wrong value
	version    bool
	listPMI    bool // --mpi=list is given
	help       *HelpTopic
	errs       []error
	notes      []string // about options that have no effect
	from       string   // "F:3"; empty: the command line
}

// A HelpTopic is the value of -help: the option or heading about which the user wants help. If it is empty,
// the user wants the general help.
type HelpTopic struct{ Option string }

// A scanner reads the options of one app context.
type scanner struct {
	*Table
	appWords
	pos int
	scannedApp
}

// scan reads the options of an app context up to the program (rule CLI-4). If the words after the options are hosts and
// not a program, options may also follow the hosts.
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

// scanOptions reads options up to the first word that is not an option.
func (s *scanner) scanOptions() {
	for s.pos < len(s.args) && strings.HasPrefix(s.args[s.pos], "-") {
		if s.args[s.pos] == "--" {
			s.pos++
			return
		}
		s.scanOption()
	}
}

// namesHostsOnly reports whether, given the options read so far, all words that are not options are hosts. For --doctor
// it returns false, because these words may be a program.
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
	m, known := s.findSpelling(name)
	if !known {
		s.refuseUnknown(name, attached)
		return
	}
	switch m.Name {
	case "help":
		s.scanHelp(value, attached)
	case "version":
		if s.version = true; attached {
			s.addError(name+" does not accept a value", "")
		}
	case "separator":
		s.addError(name+" must be the first option", "")
		s.pos++
	default:
		g := GivenOption{Option: m.Option, Spelled: name, Value: m.impliedValue, AppNumber: s.number, Position: s.position + at, preset: m.Preset, precedence: s.precedence, source: s.appWords.from}
		if m.global && g.precedence < globalOnLine {
			g.precedence += globalOnLine
		}
		s.scanValue(m, g, value, attached)
	}
}

// scanValue reads the value of an option. The value is implied by the option's name, attached to the option, or given
// by the next word.
func (s *scanner) scanValue(m namedOption, g GivenOption, value string, attached bool) {
	switch {
	case attached && (m.Preset || m.valueForm == "none"):
		if s.refuseRemoved(normalize(g.Spelled) + "=" + value) {
			return
		}
		s.addError(g.Spelled+" does not accept a value", "")
		return
	case attached:
		g.Value = value
	case m.Preset:
		g.Value = m.Value
	case m.valueForm == "attached":
		if s.pos < len(s.args) && slices.Contains(m.Words, s.args[s.pos]) {
			s.addError(g.Spelled+" accepts a value only after =", "write "+g.Spelled+"="+s.args[s.pos])
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

// scanPair reads the second value of an option if the option has two, NAME and VALUE. Then it stores the option.
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
		if err := m.checkText(g.Value); err != nil {
			s.addError(fmt.Sprintf("%s: %v", g.Spelled, err), "write "+g.Spelled+m.argument())
			return
		}
		g.typed, g.Value = g.Value, m.value(g.Value)
	}
	s.keepOption(g)
}

// nextValue returns the next word as the value of option m. It returns false if there is no next word. It also
// returns false if that word is itself an option, unless the valueForm of m is "any".
func (s *scanner) nextValue(m namedOption, name string) (string, bool) {
	form := fmt.Sprintf("write %s %s", name, m.Arg)
	if m.takesNumber() {
		form = "write " + name + m.argument()
	}
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
		if _, known := s.findSpelling(option); known {
			s.addError(fmt.Sprintf("%s needs a value, but the option %s follows", name, option), cmp.Or(m.Hint(), form))
			return "", false
		}
	}
	s.pos++
	return word, true
}

// keepOption decodes an option's value and stores the option.
func (s *scanner) keepOption(g GivenOption) {
	if g.Name == "pmi" && g.Value == "list" { // srun's request for the list of values
		s.listPMI = true
		return
	}
	if s.refuseRemoved(g.Name + "=" + g.Value) {
		return
	}
	g, kept, note := s.translateParameter(g)
	if note != "" {
		s.notes = append(s.notes, note)
	}
	if !kept {
		return
	}
	var err error
	g.decoded, err = s.decode(g.Option, g.Value)
	s.noProgram = s.noProgram || err != nil && g.query != ""
	var hosts hostlist.Errors
	switch {
	case err == nil:
		s.given = append(s.given, g)
	case errors.As(err, &hosts):
		s.errs = append(s.errs, hosts...)
	default:
		s.addError(fmt.Sprintf("%s: %v", g.Spelled, err), cmp.Or(usererr.Hint(err), g.Hint()))
	}
}

func (s *scanner) addError(text, remedy string) {
	s.errs = append(s.errs, &usererr.Error{Text: text, Remedy: remedy})
}

// scanHelp reads "-help", "-help -OPTION" or "-help=OPTION" (rule DIAG-10). The word after -help is the topic of the
// help if it is an option, a heading, or a word to search for in the help texts.
func (s *scanner) scanHelp(value string, attached bool) {
	if !attached && s.pos < len(s.args) {
		word, _, _ := strings.Cut(s.args[s.pos], "=")
		_, known := s.findName(normalize(word))
		_, topic := s.topicOf(word)
		searched := strings.Trim(word, letters+"_-") == "" && len(word) > 2
		if known || topic || searched || strings.HasPrefix(word, "-") {
			value = word
			s.pos++
		}
	}
	s.help = &HelpTopic{value}
}

// refuseUnknown records the error for an option that mpiexec does not have: an unknown one (rule CLI-9), a
// removed one, or one of another launcher (rule CLI-15). Then it skips the option's value, so that further
// errors can be found.
func (s *scanner) refuseUnknown(dashed string, attached bool) {
	name := normalize(dashed)
	values := -1
	if s.refuseRemoved(name) {
		values = 0
	} else if r, ok := s.refusalOf(dashed); ok {
		values = r.valueWords
		s.refuseForeign(dashed, r)
	} else if separated := s.separateNumber(dashed); separated != "" {
		values = 0
		s.addError("unknown option "+ShellQuote(dashed), "write "+separated)
	} else {
		s.addError("unknown option "+ShellQuote(dashed)+s.suggest(name), s.name+" --help lists the options")
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

// refuseRemoved records the error for a removed option or removed value (name=value). It returns false if the
// option was not removed.
func (s *scanner) refuseRemoved(option string) bool {
	err := RemovedError(option)
	if err == nil {
		return false
	}
	s.errs = append(s.errs, err)
	s.noProgram = true
	return true
}

// separateNumber separates an option from a number that is attached to it. For example, it returns "-n 4" for srun's
// -n4. For any other word it returns "".
func (t *Table) separateNumber(dashed string) string {
	name := strings.TrimRight(dashed, "0123456789")
	m, known := t.findSpelling(name)
	if name == dashed || !known || m.Preset || len(m.Arg) != 1 {
		return ""
	}
	return name + " " + dashed[len(name):]
}

// A lenientError is an error that --lenient turns into a warning.
type lenientError struct{ err *usererr.Error }

func (e lenientError) Error() string { return e.err.Error() }

// refuseForeign records the error or the note for an option of another launcher.
func (s *scanner) refuseForeign(dashed string, r refusal) {
	text := dashed + ": " + r.advice
	switch r.grade {
	case gradeError:
		s.addError(text, "")
	case gradeLenient:
		s.errs = append(s.errs, lenientError{&usererr.Error{Text: text, Remedy: "leave out the option, or add --lenient"}})
	case gradeUnneeded:
		s.notes = append(s.notes, text+"; leave out the option")
	}
}

// suggest returns a phrase that lists up to three options whose spelling is closest to name. They differ from name by
// at most two letters, or by fewer if name is short.
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

// HasOption reports whether the table has the option dashed, which includes its dashes.
func (t *Table) HasOption(dashed string) bool {
	_, has := t.findSpelling(dashed)
	return has
}

// CountWords returns how many words at the start of args belong to the first option: the option itself and
// its values.
func (t *Table) CountWords(args []string) int {
	s := scanner{Table: t, appWords: appWords{number: 1, position: 1, args: args}}
	s.scanOption()
	return s.pos
}

// schedulerKeys maps keys of the option -l in a scheduler's job scripts to mpiexec's options with the same
// meaning.
var schedulerKeys = [][2]string{
	{"nodeset", "node-set"}, {"nodesetisoptional", "node-set-optional"}, {"nodesettolerance", "node-set-tolerance"},
	{"nodesetprioritytype", "node-set-priority"}, {"nodesetplus", "node-set-plus"}, {"nodesetdelay", "node-set-delay"},
}

// scanSchedulerOption reads a scheduler's option -l nodeset=SPEC[,nodesetdelay=T]... (which-hosts.md 4.1). It
// returns false for mpiexec's own -l, which labels lines of output. It treats -l as the scheduler's option
// only if the next word begins with nodeset and has a value.
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
			s.addError(fmt.Sprintf("-l: %q is not an attribute", pair[0]), "allowed: nodeset, nodesetisoptional, nodesettolerance, nodesetprioritytype, nodesetplus, nodesetdelay")
			continue
		}
		m := s.names[schedulerKeys[i][1]]
		s.keepOption(GivenOption{Option: m.Option, Spelled: "-l " + pair[0], Value: pair[1], AppNumber: s.number, Position: s.position + at, precedence: s.precedence, source: s.appWords.from})
	}
	return true
}

// schedulerPairs splits a string such as a=b,c,d=e into a=b,c and d=e. An item without = belongs to the value before
// it.
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
