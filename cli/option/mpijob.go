package option

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/text"
	"remshell/usererr"
)

/*
This file is the front end mpijob. Each of its commands is an option of mpiexec that asks about jobs and hosts:

	mpijob status --json 17-a n1  --Parse-->  mpiexec --status=17-a --json n1  -->  Line

The options of mpijob are rows of mpiexec's table. mpijob knows only the options that its commands accept. The tag
command of an option makes it a command.
*/

// A jobCommand is a subcommand of mpijob, such as "end".
type jobCommand struct {
	command      string
	option       string   // the option of mpiexec, by its canonical name
	args         []string // words that must follow it: SIG, JOB; or settings: KEY=VALUE...
	help         string
	takes        []string // options in addition to jobCommonOptions and the options for reaching hosts
	likeCommands []string // commands of other programs that mean the same
}

// jobCommands returns the subcommands of mpijob, in the order of the table.
func (t *Table) jobCommands() (commands []jobCommand) {
	for _, o := range t.options {
		if command := o.command(); command != "" {
			tag := o.field.Tag.Get
			commands = append(commands, jobCommand{command, o.Name, strings.Fields(o.Arg), cmp.Or(tag("commandhelp"), o.Help()), strings.Fields(tag("commandtakes")), strings.Fields(tag("likecommands"))})
		}
	}
	return commands
}

// command returns the subcommand of mpijob that means the same as the option, or "" if mpijob has no such
// subcommand.
func (o *Option) command() string { return o.field.Tag.Get("command") }

// jobCommonOptions are the options that all subcommands of mpijob accept, in addition to the options for reaching
// hosts.
var jobCommonOptions = []string{
	"host", "hostfile", "nodes", "exclude", "cluster", "ledger", "rmk", "rm-file", "batch-option", "simulate-nodes", "localhost",
	"verbose", "color", "lenient", "help", "version", "man", "completion",
}

// startWords are the subcommands with which other programs start jobs. If a user gives one of them to mpijob, the error
// message says that only mpiexec starts jobs.
var startWords = []string{"run", "start", "exec", "launch", "submit", "alloc", "selftest"}

// batchCommands maps commands of batch systems to the subcommands of mpijob that do the same.
var batchCommands = map[string][]string{"squeue": {"ps", "queue"}, "qstat": {"ps", "queue"}, "scancel": {"end"}, "qdel": {"end"}}

// rowOfCommand returns the row of a subcommand of mpijob, or nil if mpijob has no such subcommand.
func (t *JobTable) rowOfCommand(command string) *jobCommand {
	return findRow(t.commands, func(c jobCommand) bool { return c.command == command })
}

// rowOfOption returns the subcommand of mpijob that does the same as an option of mpiexec, or nil. name is the option's
// main spelling without dashes.
func (t *JobTable) rowOfOption(name string) *jobCommand {
	return findRow(t.commands, func(c jobCommand) bool { return c.option == name })
}

func findRow(commands []jobCommand, match func(jobCommand) bool) *jobCommand {
	if i := slices.IndexFunc(commands, match); i >= 0 {
		return &commands[i]
	}
	return nil
}

// usage returns the command followed by placeholders for its arguments, such as "signal SIG JOB".
func (c *jobCommand) usage() string { return strings.Join(append([]string{c.command}, c.args...), " ") }

// takesSettings reports whether the command accepts settings of the form KEY=VALUE after its name.
func (c *jobCommand) takesSettings() bool { return slices.Equal(c.args, []string{"KEY=VALUE..."}) }

// split splits the words after the subcommand c. value is the value to give to mpiexec's equivalent option, such as
// USR1=17-a. hosts are the remaining words. ok is false if words are missing.
func (c *jobCommand) split(words []string) (value string, hosts []string, ok bool) {
	isHost := func(word string) bool { return !strings.Contains(word, "=") }
	switch {
	case c.takesSettings():
		settings := slices.DeleteFunc(slices.Clone(words), isHost)
		hosts = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !isHost(word) })
		return strings.Join(settings, " "), hosts, len(settings) > 0
	case len(words) < len(c.args):
		return "", nil, false
	}
	return strings.Join(words[:len(c.args)], "="), words[len(c.args):], true
}

// optionWord returns the option of mpiexec for this subcommand, with value if it takes one, such as --signal=USR1=17-a.
func (c *jobCommand) optionWord(value string) string {
	if len(c.args) == 0 {
		return "--" + c.option
	}
	return "--" + c.option + "=" + value
}

// A JobQuery is a request about jobs or hosts, such as --ps or --end. A command line with such a request
// starts no job.
type JobQuery struct {
	Command string // of mpijob; empty if the line asks nothing
	Job     string // as the user types it; empty for commands without a job
	Signal  int
}

// queryOf returns the query about jobs or hosts that the options contain. The zero value means that there is none.
func queryOf(options []GivenOption) (q JobQuery) {
	for _, g := range options {
		command := g.command()
		if command == "" {
			continue
		}
		q.Command = command
		switch value := g.decoded.Interface().(type) {
		case string:
			q.Job = value
		case JobSignal:
			q.Job, q.Signal = value.Job, value.Number
		}
	}
	return q
}

// Command returns a command about jobs that the user can type. For example, Command("end") usually begins with
// "mpiexec --end". If the current command line is a command line of mpijob, it begins with "mpijob end".
func (l Line) Command(name string, args ...string) string {
	command := "mpijob " + name
	if row := findRow(l.table.jobCommands(), func(c jobCommand) bool { return c.command == name }); row != nil && !l.ofMpijob {
		command = "mpiexec --" + row.option
	}
	return strings.Join(append([]string{command}, args...), " ")
}

// A JobTable contains the options and subcommands of mpijob. Its Table is the part of mpiexec's table that mpijob
// accepts.
type JobTable struct {
	*Table
	mpiexec  *Table
	commands []jobCommand
}

// Mpijob derives mpijob's table of options from mpiexec's table.
func Mpijob(mpiexec *Table) *JobTable {
	t := &JobTable{&Table{name: "mpijob", names: make(map[string]namedOption), texts: mpiexec.texts, mappers: mpiexec.mappers}, mpiexec, mpiexec.jobCommands()}
	// The hosts that can be reached answer a query; no option is needed for that.
	reaching := slices.DeleteFunc(mpiexec.byTopic()["Reaching hosts"], func(o *Option) bool { return o.Name == "skip-unreachable" || o.Name == "min-nodes" })
	for _, o := range mpiexec.options {
		row := t.rowOfOption(o.Name)
		taken := slices.Contains(jobCommonOptions, o.Name) || slices.Contains(reaching, o) || t.commandsTaking(o.Name) != nil
		if row == nil && taken {
			t.options = append(t.options, o)
			t.names[o.Name] = mpiexec.names[o.Name]
			for _, s := range o.OtherSpellings {
				t.names[normalize(s.Dashed)] = mpiexec.names[normalize(s.Dashed)]
			}
			continue
		}
		r := refusal{names: o.Name, advice: "this is an option of mpiexec, which starts jobs; mpijob does not have it"}
		for _, s := range o.OtherSpellings {
			r.names += "," + normalize(s.Dashed)
		}
		if o.valueForm != "none" && o.valueForm != "attached" {
			r.valueWords = 1
		}
		if row != nil {
			r.advice = "mpijob has a command for this: mpijob " + row.usage()
		}
		t.refusals = append(t.refusals, r)
	}
	return t
}

// commandsTaking returns the subcommands of mpijob, such as "end", that accept an option. It returns nil for options
// that all subcommands accept.
func (t *JobTable) commandsTaking(option string) (commands []string) {
	for _, c := range t.commands {
		if slices.Contains(c.takes, option) {
			commands = append(commands, c.command)
		}
	}
	return commands
}

// Parse parses a command line of mpijob. It returns the parsed line, and the equivalent command line of
// mpiexec.
func (t *JobTable) Parse(args []string, sources Sources) (line Line, mpiexecArgs []string, err error) {
	s := scanner{Table: t.Table, appWords: appWords{number: 1, position: 1, args: args}}
	var words, options []string
	for s.pos < len(args) {
		start := s.pos
		s.scanOptions()
		options = append(options, args[start:s.pos]...)
		if s.pos < len(args) {
			words = append(words, args[s.pos])
			s.pos++
		}
		if len(words) == 1 && words[0] == "help" { // what follows may look like an option
			s.help, words = &HelpTopic{strings.Join(args[s.pos:min(s.pos+1, len(args))], "")}, nil
			break
		}
	}
	topic := s.help
	switch {
	case len(args) == 0:
		topic = &HelpTopic{}
	case topic != nil && len(words) > 0 && !strings.HasPrefix(topic.Option, "-"): // mpijob status --help
		topic = &HelpTopic{words[0]}
	}
	if topic != nil || s.version {
		return Line{Help: topic, Version: topic == nil, ofMpijob: true}, nil, nil
	}
	mpiexecArgs = slices.DeleteFunc(options, func(word string) bool { return word == "--" })
	asksItself := slices.ContainsFunc(s.given, func(g GivenOption) bool { return g.Name == "man" || g.Name == "completion" })
	if len(s.errs) == 0 && !asksItself {
		if row := t.readCommand(&s, words); row != nil {
			value, hosts, _ := row.split(words[1:])
			mpiexecArgs = slices.Concat([]string{row.optionWord(value)}, mpiexecArgs, hosts)
		}
	}
	if len(s.errs) > 0 {
		return Line{}, nil, firstTen(s.errs)
	}
	line, err = t.mpiexec.Parse(mpiexecArgs, sources)
	line.ofMpijob = true
	return line, mpiexecArgs, err
}

// readCommand returns the table row of the subcommand in the first word. If the subcommand is missing or
// unknown, or has too few words after it, readCommand returns nil and records the error in s.
func (t *JobTable) readCommand(s *scanner, words []string) *jobCommand {
	if len(words) == 0 {
		s.addError("no command given", "mpijob help lists the commands")
		return nil
	}
	row := t.rowOfCommand(words[0])
	if row == nil {
		s.errs = append(s.errs, t.unknownCommandError(words[0]))
		return nil
	}
	value, _, ok := row.split(words[1:])
	switch {
	case ok:
	case row.takesSettings():
		s.addError(row.command+": no setting given", "write mpijob "+row.usage()+" HOST; mpijob help "+row.command+" lists the settings")
		return nil
	default:
		missing := map[string]string{"JOB": "job", "SIG": "signal"}[row.args[len(words)-1]]
		s.addError(fmt.Sprintf("%s: no %s given", row.command, missing), "write mpijob "+row.usage()+"; mpijob ps lists the jobs")
		return nil
	}
	for _, g := range s.given {
		if takers := t.commandsTaking(g.Name); takers != nil && !slices.Contains(takers, row.command) {
			s.addError(fmt.Sprintf("%s: this command does not have the option %s", row.command, g.Spelled), "leave out the option; these commands have it: "+strings.Join(takers, ", "))
		}
	}
	// The value is decoded here, so that an error in it names the command and not the option of mpiexec.
	if len(row.args) > 0 {
		s.keepOption(GivenOption{Option: t.mpiexec.names[row.option].Option, Spelled: row.command, Value: value})
	}
	return row
}

// unknownCommandError returns the error for a subcommand that mpijob does not have.
func (t *JobTable) unknownCommandError(word string) error {
	err := &usererr.Error{Text: "unknown command " + ShellQuote(word), Remedy: "mpijob help lists the commands"}
	if slices.Contains(startWords, word) {
		err.Remedy = "to start jobs, see mpiexec --help"
		return err
	}
	var meant []string
	nearest, best := "", min(2, len(word)/2)+1
	for _, c := range t.commands {
		if slices.Contains(c.likeCommands, word) || slices.Contains(batchCommands[word], c.command) {
			meant = append(meant, fmt.Sprintf("mpijob %s: %s", c.usage(), c.help))
		}
		if d := text.EditDistance(word, c.command); d < best {
			nearest, best = c.command, d
		}
	}
	switch {
	case meant != nil:
		err.Remedy = strings.Join(meant, "; ")
	case nearest != "":
		err.Text += fmt.Sprintf(" (did you mean %s?)", nearest)
	}
	return err
}
