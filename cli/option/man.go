package option

import (
	"fmt"
	"strings"
)

// Man is the manual page, made of the option table.
func Man(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MPIEXEC 1 \"\" \"Remshell %s\" \"User commands\"\n", roff(version))
	b.WriteString(".nh\n.ad l\n" + manHead)
	t := newTable()
	under := t.byTopic()
	for _, topic := range topics {
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

const manHead = `.SH NAME
mpiexec \- start parallel programs on many hosts
.SH SYNOPSIS
.B mpiexec
.RI [ options ]
.I program
.RI [ args ]
.RB [ " : "
.RI [ options ]
.I program
.RI [ args ]
.RB "] ..."
.SH DESCRIPTION
.B mpiexec
starts the ranks of a parallel program on this machine or, over SSH, on others, where nothing
need be installed. It passes on what they write, sees to it that all of them end, and exits
with their code.
.PP
Options end at the first word that does not begin with a dash, or at
.BR \-\- .
A lone colon begins another section, with options and a program of its own.
Every long option is written with one dash or two; case, and \- or _, do not matter in it.
A value is the next word, or follows an equals sign.
.SH OPTIONS
`

const manEnvironment = `What is said on the command line holds; else what a
.B \-configfile
says, then the environment, then the user's configuration.
Every long option may stand in a variable
.BI MPIEXEC_ NAME
in capitals, with _ for \-; switches are 1 or 0. Variables of other launchers are read too:
`

const manTail = `.TP
.B MPIEXEC_CONFIG
The user's configuration.
.TP
.B MPIEXEC_ERROR_CODE
The exit code of our own failures in place of 125.
.SH FILES
.TP
.I ~/.config/mpiexec/config
The user's configuration: an option on each line, with or without dashes, "name value" or
"name = value"; # begins a comment.
.TP
.I ~/.config/remshell/cluster.toml, /etc/remshell/cluster.toml
The nodes of the cluster.
.TP
.I ~/.ssh/config, ~/.ssh/known_hosts
How hosts are reached.
.SH EXIT STATUS
That of the first rank that failed, 128 and the number of the signal that ended it, or 0.
125 is a failure of mpiexec itself, 126 a program that cannot be run, 127 a program that is
not there.
.SH SEE ALSO
.BR ssh_config (5)
`

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
		fmt.Fprintf(b, "\\fB%s\\fR means \\fB%s=%s\\fR.\n", roff(s.Dashed), roff(o.Dashed), roff(s.Value))
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
