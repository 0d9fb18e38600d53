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
This file is the front end mpijob. Each of its words is an option of mpiexec that asks about jobs and hosts:

	mpijob status --json 17-a n1  --Parse-->  mpiexec --status=17-a --json n1  -->  Line

An option of mpijob is the row of mpiexec's table. mpijob knows only those that its words take. The row of a word is that of
its option, too: see the tag word.
*/

// A jobWord is a subcommand of mpijob, such as "end". The documents call it a word.
type jobWord struct {
	word      string
	option    string   // the option of mpiexec, by its canonical name
	args      []string // words that must follow it: SIG, JOB
	help      string
	takes     []string // options beside jobCommonOptions and those for reaching hosts
	likeWords []string // words of other programs that mean the same
}

// jobWords returns the subcommands of mpijob, in the order of the table.
func (t *Table) jobWords() (words []jobWord) {
	for _, o := range t.options {
		if word := o.word(); word != "" {
			tag := o.field.Tag.Get
			words = append(words, jobWord{word, o.Name, strings.Fields(o.Arg), cmp.Or(tag("wordhelp"), o.Help()), strings.Fields(tag("wordtakes")), strings.Fields(tag("likewords"))})
		}
	}
	return words
}

// word returns the subcommand of mpijob that means the same as the option, or "" if mpijob has no such
// subcommand.
func (o *Option) word() string { return o.field.Tag.Get("word") }

// jobCommonOptions are the options that all subcommands of mpijob take, besides the options for reaching
// hosts.
var jobCommonOptions = []string{
	"host", "hostfile", "nodes", "exclude", "cluster", "ledger", "rmk", "rm-file", "batch-option", "simulate-nodes", "localhost",
	"verbose", "color", "lenient", "help", "version", "man", "completion",
}

// startWords are subcommands with which other programs start jobs. mpijob starts no jobs.
var startWords = []string{"run", "start", "exec", "launch", "submit", "alloc", "selftest"}

// batchCommands are commands of batch systems, with the subcommands of mpijob that mean the same.
var batchCommands = map[string][]string{"squeue": {"ps", "queue"}, "qstat": {"ps", "queue"}, "scancel": {"end"}, "qdel": {"end"}}

// rowOfWord returns the row of a subcommand of mpijob, or nil if mpijob has no such subcommand.
func (t *JobTable) rowOfWord(word string) *jobWord {
	return findRow(t.words, func(w jobWord) bool { return w.word == word })
}

// rowOfOption returns the row of an option of mpiexec by its canonical name, or nil.
func (t *JobTable) rowOfOption(name string) *jobWord {
	return findRow(t.words, func(w jobWord) bool { return w.option == name })
}

func findRow(words []jobWord, is func(jobWord) bool) *jobWord {
	if i := slices.IndexFunc(words, is); i >= 0 {
		return &words[i]
	}
	return nil
}

// usage returns the command with what must follow it: "signal SIG JOB".
func (w *jobWord) usage() string { return strings.Join(append([]string{w.word}, w.args...), " ") }

// value returns the value of mpiexec's option for a command line. words[0] is the command.
func (w *jobWord) value(words []string) string { return strings.Join(words[1:1+len(w.args)], "=") }

// optionWord returns mpiexec's option with its value for a command line: --signal=USR1=17-a.
func (w *jobWord) optionWord(words []string) string {
	if len(w.args) == 0 {
		return "--" + w.option
	}
	return "--" + w.option + "=" + w.value(words)
}

// A JobQuery is what a command line asks about jobs or hosts. Such a line starts no job.
type JobQuery struct {
	Word   string // of mpijob; empty: the line asks nothing
	Job    string // as the user types it; empty for words without a job
	Signal int
}

// queryOf returns what the options of a line ask about jobs or hosts.
func queryOf(given []GivenOption) (q JobQuery) {
	for _, g := range given {
		word := g.word()
		if word == "" {
			continue
		}
		q.Word = word
		switch value := g.decoded.Interface().(type) {
		case string:
			q.Job = value
		case JobSignal:
			q.Job, q.Signal = value.Job, value.Number
		}
	}
	return q
}

// Command returns a command about jobs for the user to type. It is "mpijob end 17-a" if the line is one
// of mpijob, and "mpiexec --end 17-a" otherwise.
func (l Line) Command(word string, args ...string) string {
	command := "mpijob " + word
	if row := findRow(l.table.jobWords(), func(w jobWord) bool { return w.word == word }); row != nil && !l.ofMpijob {
		command = "mpiexec --" + row.option
	}
	return strings.Join(append([]string{command}, args...), " ")
}

// A JobTable is the table of mpijob. Its Table has the rows of mpiexec's table that commands of mpijob
// accept.
type JobTable struct {
	*Table
	mpiexec *Table
	words   []jobWord
}

// Mpijob returns the table of mpijob's options. mpiexec is the table of mpiexec.
func Mpijob(mpiexec *Table) *JobTable {
	t := &JobTable{&Table{name: "mpijob", names: make(map[string]namedOption), texts: mpiexec.texts, mappers: mpiexec.mappers}, mpiexec, mpiexec.jobWords()}
	// What is asked, the hosts that can be reached answer; no option has to say so.
	reaching := slices.DeleteFunc(mpiexec.byTopic()["Reaching hosts"], func(o *Option) bool { return o.Name == "skip-unreachable" || o.Name == "min-nodes" })
	for _, o := range mpiexec.options {
		row := t.rowOfOption(o.Name)
		taken := slices.Contains(jobCommonOptions, o.Name) || slices.Contains(reaching, o) || t.wordsTaking(o.Name) != nil
		if row == nil && taken {
			t.options = append(t.options, o)
			t.names[o.Name] = mpiexec.names[o.Name]
			for _, s := range o.OtherSpellings {
				t.names[normalize(s.Dashed)] = mpiexec.names[normalize(s.Dashed)]
			}
			continue
		}
		r := refusal{names: o.Name, advice: "is an option of mpiexec, which starts jobs; leave it out"}
		for _, s := range o.OtherSpellings {
			r.names += " " + normalize(s.Dashed)
		}
		if o.valueForm != "none" && o.valueForm != "attached" {
			r.valueWords = 1
		}
		if row != nil {
			r.advice = "is a command here: mpijob " + row.usage()
		}
		t.refusals = append(t.refusals, r)
	}
	return t
}

// wordsTaking returns the subcommands of mpijob (such as "end") that accept the option besides the options
// that all subcommands accept.
func (t *JobTable) wordsTaking(option string) (words []string) {
	for _, w := range t.words {
		if slices.Contains(w.takes, option) {
			words = append(words, w.word)
		}
	}
	return words
}

// Parse parses a command line of mpijob. It returns the line, and the command line of mpiexec that means
// the same.
func (t *JobTable) Parse(args []string, from Sources) (line Line, mpiexecArgs []string, err error) {
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
		if row := t.readWord(&s, words); row != nil {
			mpiexecArgs = slices.Concat([]string{row.optionWord(words)}, mpiexecArgs, words[1+len(row.args):])
		}
	}
	if len(s.errs) > 0 {
		return Line{}, nil, firstTen(s.errs)
	}
	line, err = t.mpiexec.Parse(mpiexecArgs, from)
	line.ofMpijob = true
	return line, mpiexecArgs, err
}

// readWord returns the row of the command, which is the first word. If the command is missing, unknown,
// or followed by fewer words than it needs, it returns nil and records the error in s.
func (t *JobTable) readWord(s *scanner, words []string) *jobWord {
	if len(words) == 0 {
		s.addError("no command given", "mpijob help lists the commands")
		return nil
	}
	row := t.rowOfWord(words[0])
	if row == nil {
		s.errs = append(s.errs, t.unknownWordError(words[0]))
		return nil
	}
	if n := len(words) - 1; n < len(row.args) {
		missing := map[string]string{"JOB": "job", "SIG": "signal"}[row.args[n]]
		s.addError(fmt.Sprintf("%s: no %s given", row.word, missing), "write mpijob "+row.usage()+"; mpijob ps lists the jobs")
		return nil
	}
	for _, g := range s.given {
		if takers := t.wordsTaking(g.Name); takers != nil && !slices.Contains(takers, row.word) {
			s.addError(fmt.Sprintf("%s: %s does not apply here", row.word, g.Spelled), "leave it out; it is an option of "+strings.Join(takers, ", "))
		}
	}
	// The value is decoded here, so that an error in it names the word and not the option of mpiexec.
	if len(row.args) > 0 {
		s.keepOption(GivenOption{Option: t.mpiexec.names[row.option].Option, Spelled: row.word, Value: row.value(words)})
	}
	return row
}

// unknownWordError returns the error for a subcommand that mpijob does not have.
func (t *JobTable) unknownWordError(word string) error {
	err := &usererr.Error{Text: "unknown command " + ShellQuote(word), Remedy: "mpijob help lists the commands"}
	if slices.Contains(startWords, word) {
		err.Remedy = "to start jobs, see mpiexec --help"
		return err
	}
	var meant []string
	nearest, best := "", min(2, len(word)/2)+1
	for _, w := range t.words {
		if slices.Contains(w.likeWords, word) || slices.Contains(batchCommands[word], w.word) {
			meant = append(meant, fmt.Sprintf("mpijob %s: %s", w.usage(), w.help))
		}
		if d := text.EditDistance(word, w.word); d < best {
			nearest, best = w.word, d
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
