package option

import (
	_ "embed"
	"fmt"
	"strings"
)

// These are the parts of the manual page before and after the list of options.
var (
	//go:embed texts/man.head
	manHead string
	//go:embed texts/man.environment
	manEnvironment string
	//go:embed texts/man.tail
	manTail string
)

// Man returns the manual page in troff. It is generated from the table of options.
func (t *Table) Man(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MPIEXEC 1 \"\" \"Remshell %s\" \"User commands\"\n", escapeRoff(version))
	b.WriteString(".nh\n.ad l\n" + manHead)
	under := t.byTopic()
	for _, topic := range t.topics {
		fmt.Fprintf(&b, ".SS %s\n", escapeRoff(topic))
		for _, o := range under[topic] {
			o.writeMan(&b)
		}
	}
	b.WriteString(".SH ENVIRONMENT\n" + manEnvironment)
	for _, o := range t.options {
		if names := o.variables(); len(names) > 1 {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", escapeRoff(o.Dashed), escapeRoff(strings.Join(names[1:], ", ")))
		}
	}
	b.WriteString(manTail)
	return b.String()
}

// writeMan writes the paragraph about the option in the manual page.
func (o *Option) writeMan(b *strings.Builder) {
	names := []string{o.Dashed}
	same, preset := o.spellings()
	names = append(names, same...)
	for i, name := range names {
		names[i] = `\fB` + escapeRoff(name) + `\fR`
	}
	head := strings.Join(names, ", ")
	if o.Arg != "" {
		head += strings.NewReplacer(`\ `, " ").Replace(italic(o.argumentText()))
	}
	fmt.Fprintf(b, ".TP\n%s\n%s.\n", head, escapeRoff(capitalize(o.Help())))
	if o.LongHelp() != "" {
		fmt.Fprintf(b, "%s\n", escapeRoff(o.LongHelp()))
	}
	for _, s := range preset {
		fmt.Fprintf(b, "\\fB%s\\fR%s means \\fB%s\\fR.\n", escapeRoff(s.Dashed), s.argument(), escapeRoff(o.settingText(s.Value)))
	}
	if len(o.Words) > 0 && o.Arg != "" {
		fmt.Fprintf(b, "Values: %s.\n", escapeRoff(strings.Join(o.Words, ", ")))
	}
	fmt.Fprintf(b, "%s\n", escapeRoff(strings.ReplaceAll(o.scopeText(), "\n", " ")))
}

func italic(text string) string { return `\fI` + escapeRoff(text) + `\fR` }

func capitalize(text string) string {
	if text == "" || text[0] == '-' {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// escapeRoff escapes text so that troff prints it literally.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
