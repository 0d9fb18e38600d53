package option

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/format"
	"remshell/text"
	"remshell/usererr"
)

// helpColumn is the column at which explanations begin in help texts.
const helpColumn = 30

// Usage returns the text that -help prints: one line for each option, grouped under headings.
func (t *Table) Usage() string {
	var b strings.Builder
	b.WriteString(t.name + " [options] program [args] [ : [options] program [args] ]...\n")
	for _, topic := range t.topics {
		fmt.Fprintf(&b, "\n%s\n", topic)
		for _, o := range t.options {
			if o.Topic() == topic {
				b.WriteString(o.helpLine())
			}
		}
	}
	b.WriteString("\nWrite -name VALUE or --name=VALUE. " + t.name + " -help -OPTION explains an option;\n" +
		t.name + " -help " + strings.Join(t.topicWords(), "|") + "|all lists options.\n")
	return b.String()
}

// topicWords returns the values that -help accepts as TOPIC.
func (t *Table) topicWords() []string {
	var words []string
	for _, topic := range t.topics {
		first, _, _ := strings.Cut(topic, " ")
		words = append(words, strings.ToLower(first))
	}
	return words
}

// HelpOn returns the help about word. The word can be a topic, "all", an option, or a word to search for in
// all help texts. If it is empty, HelpOn returns the general help.
func (t *Table) HelpOn(word string) (string, error) {
	if word == "" {
		return t.Usage(), nil
	}
	wanted, ok := t.topicOf(word)
	if _, option := t.findName(normalize(word)); !ok && word != "all" {
		if option || strings.HasPrefix(word, "-") {
			return t.Explain(word)
		}
		if RemovedError(normalize(word)) != nil {
			return t.Explain("--" + word)
		}
		return t.searchHelp(word)
	}
	var b strings.Builder
	under := t.byTopic()
	for _, topic := range t.topics {
		if topic != wanted && word != "all" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n", topic)
		for _, o := range under[topic] {
			b.WriteString(o.helpLine())
		}
	}
	return b.String(), nil
}

// searchHelp returns the help lines of the options whose names, help texts or environment variables contain word.
func (t *Table) searchHelp(word string) (string, error) {
	var b strings.Builder
	nearest, best := []string(nil), min(2, len(word)/2)+1
	for _, o := range t.options {
		all := strings.ToLower(strings.Join(append(o.variables(), o.searchText()), " "))
		if strings.Contains(all, strings.ToLower(word)) {
			b.WriteString(o.helpLine())
		}
		for _, other := range strings.FieldsFunc(all, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_", r) }) {
			switch d := text.EditDistance(strings.ToLower(word), other); {
			case len(other) < 3 || d > best || slices.Contains(nearest, other):
			case d < best:
				nearest, best = []string{other}, d
			case nearest != nil:
				nearest = append(nearest, other)
			}
		}
	}
	if b.Len() > 0 {
		return b.String(), nil
	}
	if _, is := t.refusalOf("-" + word); is { // an option of another launcher
		return t.Explain("-" + word)
	}
	remedy := t.name + " -help all lists the options"
	if nearest != nil {
		remedy = t.name + " -help " + strings.Join(nearest[:min(3, len(nearest))], ", or -help ")
	}
	return "", &usererr.Error{Text: fmt.Sprintf("no option has %q in its help", word), Remedy: remedy}
}

// searchText returns all names and help texts of the option, but not the names of its environment variables.
func (o *Option) searchText() string {
	words := append([]string{o.Dashed, o.Help(), o.LongHelp(), o.Arg}, o.mcaParameters...)
	for _, s := range o.OtherSpellings {
		words = append(words, s.Dashed)
	}
	return strings.Join(append(words, o.Words...), " ")
}

// helpLine returns the option's line in help: its main spelling, its one-letter spelling, and what it does.
func (o *Option) helpLine() string {
	names := []string{o.Dashed}
	for _, s := range o.OtherSpellings {
		if len(s.Dashed) == 2 || s.Dashed == "-np" || s.Dashed == "-vv" {
			names = append(names, s.Dashed)
		}
	}
	left := strings.Join(names, ", ")
	if o.valueForm != "attached" {
		left += o.argumentText()
	}
	return fmt.Sprintf("  %-*s%s\n", helpColumn-2, left, o.Help())
}

// argumentText returns the placeholder for the value that follows the option's name in help.
func (o *Option) argumentText() string {
	switch {
	case o.Arg == "":
		return ""
	case o.valueForm == "attached":
		return "[=" + o.Arg + "]"
	}
	return " " + o.Arg
}

// Explain returns the help about one option. name is any of its spellings, with or without dashes.
func (t *Table) Explain(name string) (string, error) {
	m, ok := t.findName(normalize(name))
	if !ok {
		s := scanner{Table: t, appWords: appWords{args: []string{name}}}
		if s.refuseUnknown(name, true); len(s.errs) == 0 { // an option of another launcher that is not needed
			return wrapText(strings.Join(s.notes, "\n"), 78), nil
		}
		return "", s.errs[0]
	}
	var b strings.Builder
	o := m.Option
	fmt.Fprintf(&b, "%s%s   %s\n", o.Dashed, o.argumentText(), o.Help())
	if o.LongHelp() != "" {
		fmt.Fprintf(&b, "\n%s", wrapText(o.LongHelp(), 78))
	}
	same, preset := o.spellings()
	if len(same) > 0 {
		fmt.Fprintf(&b, "\n%s", wrapText("Also written: "+strings.Join(same, " "), 78))
	}
	for _, s := range preset {
		fmt.Fprintf(&b, "%s%s means %s\n", s.Dashed, s.argument(), o.settingText(s.Value))
	}
	if len(o.Words) > 0 && o.Arg != "" {
		b.WriteString(wrapText("Values: "+strings.Join(o.Words, ", "), 78))
	}
	fmt.Fprintf(&b, "%s\n", o.scopeText())
	if variables := o.variables(); len(variables) > 0 {
		b.WriteString(wrapText("Variables: "+strings.Join(variables, " "), 78))
	}
	if o.mcaParameters != nil {
		b.WriteString(wrapText("Parameters of Open MPI's launcher: "+strings.Join(o.mcaParameters, " "), 78))
	}
	if o.Default() != "" {
		fmt.Fprintf(&b, "Built in: %s\n", o.Default())
	}
	return b.String(), nil
}

// variables returns the environment variables that set the option. Variables of mpiexec come before those of
// other launchers.
func (o *Option) variables() []string {
	if o.foreignVariables == "-" {
		return nil
	}
	var names []string
	if name := ownVariable(o); name != "" {
		names = append(names, name)
	}
	for _, name := range append(slices.Clone(o.readVariables), strings.Fields(o.foreignVariables)...) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// ownVariable returns the variable MPIEXEC_NAME that sets an option, where NAME is a long name of the option.
// It skips names that mpiexec uses for variables of ranks, such as MPIEXEC_HOST. If no name is left, it
// returns "".
func ownVariable(o *Option) string {
	for _, s := range append([]Spelling{{Dashed: o.Dashed}}, o.OtherSpellings...) {
		name := "MPIEXEC_" + strings.ReplaceAll(strings.ToUpper(normalize(s.Dashed)), "-", "_")
		if len(normalize(s.Dashed)) > 1 && !s.Preset && s.Form == "" && !slices.Contains(format.RankVariables, name) {
			return name
		}
	}
	return ""
}

// spellings returns the other names of the option. plain contains names with the same meaning. preset contains names
// that also set or change the value.
func (o *Option) spellings() (plain []string, preset []Spelling) {
	for _, s := range o.OtherSpellings {
		if s.Form != "" {
			s.Value = s.value(s.placeholder())
			preset = append(preset, s)
		} else if s.Preset && o.valueForm != "none" || s.Preset && s.Value != o.impliedValue {
			preset = append(preset, s)
		} else {
			plain = append(plain, s.Dashed)
		}
	}
	return plain, preset
}

// settingText returns what a user can write to give the option this value: --NAME=VALUE, or for a switch that has a
// variable of its own, VARIABLE=VALUE.
func (o *Option) settingText(value string) string {
	name := o.Dashed
	if variable := ownVariable(o); o.valueForm == "none" && variable != "" && o.foreignVariables != "-" {
		name = variable
	}
	return name + "=" + cmp.Or(value, `""`)
}

// scopeText returns a phrase that says whether the option applies to one app context or to the whole job.
func (o *Option) scopeText() string {
	text := map[Scope]string{
		PerApp:    "The option applies only to its own app context",
		Inherited: "In the first app context, the option applies to all app contexts that do not set it",
		PerJob:    "The option applies to the whole job",
	}[o.Scope]
	if o.accumulates {
		text += ". It may be given several times"
	}
	return strings.TrimSuffix(wrapText(text+".", 78), "\n")
}

// wrapText breaks text into lines of at most width characters.
func wrapText(text string, width int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}

// VersionText returns the output of -version (rule DIAG-11): name and version, then the PMI versions that ranks can
// use. The first line contains words by which scripts recognize launchers.
func VersionText(version string, pmi []string) string {
	return fmt.Sprintf("mpiexec (Remshell) %s\nSupported PMI versions: %s\nCopyright the Remshell authors. License: Apache-2.0\n", version, strings.Join(pmi, ", "))
}
