package option

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// This file generates help, the manual page and completions of mpijob from its table.

const (
	hostsText = "HOST is a host, written as in mpiexec -host. Without HOST, mpijob uses the hosts of the cluster file, or this machine. To find a job, mpijob needs only one of its hosts."
	jobsText  = "JOB is the ID of a job, an unambiguous beginning of an ID, ID@USER, or last, which is your newest job."
)

// Usage returns the text of mpijob help.
func (t *JobTable) Usage() string {
	var b strings.Builder
	b.WriteString("mpijob COMMAND [JOB] [options] [HOST...]\n\n")
	for _, c := range t.commands {
		fmt.Fprintf(&b, "  %-*s%s\n", helpColumn-2, c.usage(), c.help)
	}
	fmt.Fprintf(&b, "  %-*s%s\n", helpColumn-2, "help [COMMAND]", "print the help of a command or an option")
	b.WriteString("\n" + wrapText(hostsText+" "+jobsText, 78) + "\n")
	for _, o := range t.options {
		if o.Topic() != "" && t.commandsTaking(o.Name) == nil {
			b.WriteString(o.helpLine())
		}
	}
	b.WriteString("\nmpijob help options lists all options. To start jobs, see mpiexec --help.\n")
	return b.String()
}

// HelpOn returns the help about a subcommand, about all options ("options"), or about one option. If topic is
// empty, it returns the general help.
func (t *JobTable) HelpOn(topic string) (string, error) {
	row := t.rowOfCommand(topic)
	var b strings.Builder
	switch {
	case topic == "" || topic == "help":
		return t.Usage(), nil
	case topic == "options":
		for _, o := range t.options {
			b.WriteString(o.helpLine())
		}
	case strings.HasPrefix(topic, "-"):
		return t.Explain(topic)
	case row == nil:
		return "", t.unknownCommandError(topic)
	default:
		fmt.Fprintf(&b, "mpijob %s [options] [HOST...]\n\n%s\n", row.usage(), wrapText(capitalize(row.help)+". "+t.textOf(row), 78))
		for _, o := range t.options {
			if slices.Contains(t.commandsTaking(o.Name), row.command) {
				b.WriteString(o.helpLine())
			}
		}
		b.WriteString("mpijob help lists the options that all commands have.\n")
	}
	return b.String(), nil
}

// optionPattern matches an option in mpiexec's help, together with the word mpiexec if it precedes the option.
var optionPattern = regexp.MustCompile(`(mpiexec )?--[a-z-]+`)

// callPattern matches a command line of mpiexec at the beginning of a help text.
var callPattern = regexp.MustCompile(`^mpiexec --[^:]*: `)

// textOf returns the long help text of a subcommand. It is the text of mpiexec's equivalent option, in which
// mpiexec's options are replaced by subcommands of mpijob.
func (t *JobTable) textOf(c *jobCommand) string {
	text := callPattern.ReplaceAllString(t.mpiexec.names[c.option].LongHelp(), "")
	text = optionPattern.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.TrimPrefix(strings.TrimPrefix(found, "mpiexec "), "--")
		if other := t.rowOfOption(name); other != nil {
			return "mpijob " + other.command
		}
		return found
	})
	if strings.HasPrefix(text, "mpijob ") {
		return text
	}
	return capitalize(text)
}

// Man returns mpijob's manual page in troff.
func (t *JobTable) Man(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MPIJOB 1 \"\" \"Remshell %s\" \"User commands\"\n.nh\n.ad l\n.SH NAME\nmpijob \\- ask about jobs of mpiexec, and control them\n", escapeRoff(version))
	b.WriteString(".SH SYNOPSIS\n.B mpijob\n.I COMMAND\n[\n.I JOB\n] [ options ] [\n.I HOST\n\\&... ]\n.br\n.B mpijob help\n[\n.I COMMAND\n]\n.SH DESCRIPTION\n" + escapeRoff(hostsText+" "+jobsText) + "\n.SH COMMANDS\n")
	for _, c := range t.commands {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n%s\n", escapeRoff(c.usage()), escapeRoff(capitalize(c.help)), escapeRoff(t.textOf(&c)))
	}
	b.WriteString(".SH OPTIONS\n")
	for _, o := range t.options {
		o.writeMan(&b)
		if commands := t.commandsTaking(o.Name); commands != nil {
			b.WriteString("Option of " + strings.Join(commands, ", ") + ".\n")
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 if the request was carried out, 125 if not.\n.B doctor\nexits with 1 after warnings.\n.SH SEE ALSO\n.BR mpiexec (1)\n")
	return b.String()
}

// Complete returns the candidates that may replace the last element of words. words is a command line up to the cursor.
func (t *JobTable) Complete(words []string, lists CompletionLists) Completion {
	last := len(words) - 1
	var before []string // the words that are not options
	for i := 0; i < last; i++ {
		name, _, attached := strings.Cut(words[i], "=")
		m, known := t.findSpelling(name)
		if !strings.HasPrefix(words[i], "-") {
			before = append(before, words[i])
		}
		if !known {
			continue
		}
		for range m.countValueWords(attached, words[i+1:]) {
			if i++; i == last {
				return m.completeValue("", words[last], !strings.HasPrefix(words[i-1], "-"), lists)
			}
		}
	}
	word := words[last]
	var row *jobCommand
	if before != nil {
		row = t.rowOfCommand(before[0])
	}
	name, value, attached := strings.Cut(word, "=")
	m, known := t.findSpelling(name)
	switch {
	case attached && known && !m.Preset && m.Arg != "":
		return m.completeValue(name+"=", value, false, lists)
	case strings.HasPrefix(word, "-"):
		found := t.optionsWithPrefix(word)
		if row != nil {
			found = slices.DeleteFunc(found, func(c [2]string) bool {
				m, _ := t.findSpelling(c[0])
				takers := t.commandsTaking(m.Name)
				return takers != nil && !slices.Contains(takers, row.command)
			})
		}
		return Completion{Kind: CompleteWords, Candidates: found}
	case before == nil || before[0] == "help" && len(before) == 1:
		return Completion{Kind: CompleteWords, Candidates: t.commandsWithPrefix(word)}
	case row != nil && len(before) <= len(row.args):
		choices := lists.Jobs
		if row.args[len(before)-1] != "JOB" {
			choices = t.mpiexec.names[row.option].choices
		}
		return Completion{Kind: CompleteWords, Candidates: wordsWithPrefix("", word, choices())}
	case row != nil:
		return Completion{Kind: CompleteWords, Candidates: wordsWithPrefix("", word, lists.Hosts())}
	}
	return Completion{Kind: CompleteWords}
}

// commandsWithPrefix returns the commands of mpijob that begin with prefix, each with its help.
func (t *JobTable) commandsWithPrefix(prefix string) (candidates [][2]string) {
	for _, c := range append(slices.Clone(t.commands), jobCommand{command: "help", help: "print the help of a command"}) {
		if strings.HasPrefix(c.command, prefix) {
			candidates = append(candidates, [2]string{c.command, c.help})
		}
	}
	return candidates
}
