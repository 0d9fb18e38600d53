package option

import (
	_ "embed"
	"fmt"
	"strings"
)

// The man page but for the options.
var (
	//go:embed texts/man.head
	manHead string
	//go:embed texts/man.environment
	manEnvironment string
	//go:embed texts/man.tail
	manTail string
)

// Man is the manual page, made of the option table.
func (t *Table) Man(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MPIEXEC 1 \"\" \"Remshell %s\" \"User commands\"\n", roff(version))
	b.WriteString(".nh\n.ad l\n" + manHead)
	under := t.byTopic()
	for _, topic := range t.topics {
		fmt.Fprintf(&b, ".SS %s\n", roff(topic))
		for _, o := range under[topic] {
			o.man(&b)
		}
	}
	b.WriteString(".SH ENVIRONMENT\n" + manEnvironment)
	for _, o := range t.options {
		if names := o.variables(); len(names) > 1 {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(o.Dashed), roff(strings.Join(names[1:], ", ")))
		}
	}
	b.WriteString(manTail)
	return b.String()
}

// man writes the paragraph of an option.
func (o *Option) man(b *strings.Builder) {
	names := []string{o.Dashed}
	same, preset := o.spellings()
	names = append(names, same...)
	for i, name := range names {
		names[i] = `\fB` + roff(name) + `\fR`
	}
	head := strings.Join(names, ", ")
	if o.Arg != "" {
		head += strings.NewReplacer(`\ `, " ").Replace(italic(o.argument()))
	}
	fmt.Fprintf(b, ".TP\n%s\n%s.\n", head, roff(capital(o.Help())))
	if o.More() != "" {
		fmt.Fprintf(b, "%s\n", roff(o.More()))
	}
	for _, s := range preset {
		fmt.Fprintf(b, "\\fB%s\\fR%s means \\fB%s\\fR.\n", roff(s.Dashed), s.argument(), roff(o.set(s.Value)))
	}
	if len(o.Words) > 0 && o.Arg != "" {
		fmt.Fprintf(b, "Values: %s.\n", roff(strings.Join(o.Words, ", ")))
	}
	fmt.Fprintf(b, "%s\n", roff(strings.ReplaceAll(o.reach(), "\n", " ")))
}

func italic(text string) string { return `\fI` + roff(text) + `\fR` }

func capital(text string) string {
	if text == "" || text[0] == '-' {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// roff writes a text so that troff prints just that.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
