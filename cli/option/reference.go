package option

import (
	"fmt"
	"slices"
	"strings"
)

// Reference generates the content of doc/options.md from the table of options.
func (t *Table) Reference() string {
	var b strings.Builder
	b.WriteString("# Options\n\n" +
		"This page is generated from the option table (cli/option/options.go) by `go test ./cli/option -run TestReference -update`.\n\n" +
		"Options may be written with one dash or two. In long names, upper and lower case mean the same, and so do `-` and `_`. A value is the next word or\n" +
		"follows `=`. Each long option may also be given as a variable `MPIEXEC_NAME`, or in the file\n" +
		"`~/.config/mpiexec/config`; other variables that mean the same are listed. An option\n" +
		"that belongs to one app context (the part between two `:`) has a form `-gNAME` for all app contexts that do not set it: `-gwdir DIR`, `-gn N`.\n")
	under := t.byTopic()
	for _, topic := range t.topics {
		fmt.Fprintf(&b, "\n## %s\n", topic)
		for _, o := range under[topic] {
			o.writeReference(&b)
		}
	}
	fmt.Fprintf(&b, "\n## Variables that are not passed on\n\n`-genvall`, the default, passes on all variables of mpiexec, and exported "+
		"shell functions. These variables are not passed on: `%s`. Each rank keeps the values that its own host sets. Variables that another launcher has set for "+
		"mpiexec, such as `PMI_*`, are not passed on either. `TMPDIR` is passed on only to hosts that have that folder. Variables in `-genvlist`, `-genv`, "+
		"`-env` or `-x` are always passed on.\n", strings.Join(PrivateVariables, "`, `"))
	b.WriteString("\n## Options of other launchers\n\nmpiexec refuses these options and prints what to use instead. With `--lenient`, it ignores the options marked * and prints a warning. It always ignores the options marked + and prints a note.\n\n")
	for _, r := range t.refusals {
		star := ""
		switch r.grade {
		case gradeLenient:
			star = "\\*"
		case gradeUnneeded:
			star = " +"
		}
		names := strings.Split(r.names, ",")
		slices.Sort(names)
		fmt.Fprintf(&b, "- `-%s`%s: %s\n", strings.Join(names, "`, `-"), star, escapeMarkdown(t.adviceOf(r)))
	}
	return b.String()
}

// writeReference writes the paragraph about the option in doc/options.md.
func (o *Option) writeReference(b *strings.Builder) {
	fmt.Fprintf(b, "\n**`%s%s`** %s.\n", o.Dashed, o.argumentText(), escapeMarkdown(o.Help()))
	if o.LongHelp() != "" {
		fmt.Fprintf(b, "%s\n", escapeMarkdown(o.LongHelp()))
	}
	same, preset := o.spellings()
	if len(same) > 0 {
		fmt.Fprintf(b, "Also `%s`.\n", strings.Join(same, "`, `"))
	}
	for _, s := range preset {
		fmt.Fprintf(b, "`%s%s` is `%s`.\n", s.Dashed, s.argument(), o.settingText(s.Value))
	}
	if len(o.Words) > 0 && o.Arg != "" {
		fmt.Fprintf(b, "Values: `%s`.\n", strings.Join(o.Words, "`, `"))
	}
	fmt.Fprintf(b, "%s", wrapText(o.scopeText(), 1000))
	if names := o.variables(); len(names) > 1 {
		fmt.Fprintf(b, "Variables: `%s`.\n", strings.Join(names[1:], "`, `"))
	}
	if o.mcaParameters != nil {
		fmt.Fprintf(b, "Parameters of Open MPI's launcher: `%s`.\n", strings.Join(o.mcaParameters, "`, `"))
	}
	if o.Default() != "" {
		fmt.Fprintf(b, "Built in: %s.\n", escapeMarkdown(o.Default()))
	}
}

// escapeMarkdown escapes the characters that Markdown would read as markup.
func escapeMarkdown(text string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "|", `\|`).Replace(text)
}
