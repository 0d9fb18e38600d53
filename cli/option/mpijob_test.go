package option

import (
	"slices"
	"strings"
	"testing"

	"remshell/usererr"
)

// A line of mpijob means the same as one of mpiexec, or has one error that names the word.
func TestMpijobLine(t *testing.T) {
	const list = "; mpijob help lists the commands"
	takers := strings.Join(Mpijob(Mpiexec(linuxSignals)).commandsTaking("json"), ", ") // words of features, too
	for _, test := range []struct{ line, want, err string }{
		{line: "ps", want: "--ps"},
		{line: "ps n1 --json n2", want: "--ps --json n1 n2"},
		{line: "-q queue -host n1", want: "--queue -q -host n1"},
		{line: "evict 17-a@ann n1", want: "--evict=17-a@ann n1"},
		{line: "evict --connect-timeout 3 last", want: "--evict=last --connect-timeout 3"},
		{line: "signal USR1 last n1", want: "--signal=USR1=last n1"},
		{line: "evict last n1 --json=f", err: "evict: this command does not have the option --json; leave out the option; these commands have it: " + takers},
		{line: "evict last n1", want: "--evict=last n1"},
		{line: "doctor n1 -- n2", want: "--doctor n1 n2"},
		{line: "--man", want: "--man"},
		{line: "-v", err: "no command given" + list},
		{line: "sginal last", err: "unknown command sginal (did you mean signal?)" + list},
		{line: "x", err: "unknown command x" + list},
		{line: "jobs", err: "unknown command jobs; mpijob ps: list running jobs; mpijob queue: list waiting requests, oldest first"},
		{line: "squeue", err: "unknown command squeue; mpijob ps: list running jobs; mpijob queue: list waiting requests, oldest first"},
		{line: "submit a", err: "unknown command submit; to start jobs, see mpiexec --help"},
		{line: "evict", err: "evict: no job given; write mpijob evict JOB; mpijob ps lists the jobs"},
		{line: "signal", err: "signal: no signal given; write mpijob signal SIG JOB; mpijob ps lists the jobs"},
		{line: "signal USR1", err: "signal: no job given; write mpijob signal SIG JOB; mpijob ps lists the jobs"},
		{line: "signal FOO last", err: `signal: "FOO" is not a signal; use a name (TERM, USR1) or a number; `},
		{line: "--evict last", err: "--evict: mpijob has a command for this: mpijob evict JOB; "},
		{line: "--ps", err: "--ps: mpijob has a command for this: mpijob ps; "},
		{line: "ps --wait=5m", err: "--wait: this is an option of mpiexec, which starts jobs; mpijob does not have it; "},
		{line: "ps -np 4", err: "-np: this is an option of mpiexec, which starts jobs; mpijob does not have it; "},
		{line: "ps --min-nodes 4", err: "--min-nodes: this is an option of mpiexec, which starts jobs; mpijob does not have it; "},
		{line: "ps -host", err: "-host needs a value; write -host LIST"},
	} {
		_, args, err := Mpijob(Mpiexec(linuxSignals)).Parse(strings.Fields(test.line), Sources{})
		text := ""
		if err != nil {
			text = err.Error() + "; " + usererr.Hint(err)
		}
		if got := strings.Join(args, " "); err == nil && got != test.want || text != test.err {
			t.Errorf("mpijob %s: mpiexec %s, error %q; want %s, %q", test.line, got, text, test.want, test.err)
		}
	}
}

// Both spellings of a question ask the same.
func TestMpijobAsksWhatMpiexecAsks(t *testing.T) {
	table := Mpiexec(linuxSignals)
	for _, w := range table.jobCommands() {
		words := []string{w.command}
		for _, arg := range w.args {
			words = append(words, map[string]string{"SIG": "USR1", "JOB": "17-a", "KEY=VALUE...": map[string]string{"allow": "maxproc=1", "gang": "slice=30s"}[w.command]}[arg])
		}
		line, args, err := Mpijob(table).Parse(words, Sources{})
		if err != nil {
			t.Fatal(err)
		}
		same, err := table.Parse(args, Sources{})
		if err != nil || same.Query != line.Query || same.Query.Command != w.command || (same.Query.Job == "17-a") != slices.Contains(w.args, "JOB") || (same.Query.Signal != 0) != (len(w.args) == 2) {
			t.Errorf("%s: %+v and %+v, %v", w.command, line.Query, same.Query, err)
		}
		mine, theirs := "mpijob "+w.command+" 17-a n1", "mpiexec --"+w.option+" 17-a n1"
		if line.Command(w.command, "17-a", "n1") != mine || same.Command(w.command, "17-a", "n1") != theirs {
			t.Errorf("%s: %s, %s", w.command, line.Command(w.command, "17-a", "n1"), same.Command(w.command, "17-a", "n1"))
		}
	}
}

// The table of mpijob names options of mpiexec only, and each question of mpiexec but --selftest has a word.
func TestMpijobTableNamesOptions(t *testing.T) {
	table := Mpiexec(linuxSignals)
	for _, w := range table.jobCommands() {
		for _, name := range append(slices.Concat(w.takes, jobCommonOptions), w.option) {
			if m, known := table.names[name]; !known || m.Name != name {
				t.Errorf("%s: there is no option %s", w.command, name)
			}
		}
	}
	for _, o := range table.options {
		if asks := o.query == "hosts" && o.Name != "selftest" || o.Name == "doctor"; asks != (o.command() != "") {
			t.Errorf("%s asks about jobs or hosts: %v; it has a word: %q", o.Dashed, asks, o.command())
		}
	}
}

// Words of other programs are none of mpijob.
func TestMpijobLikeWordsAreNone(t *testing.T) {
	table := Mpijob(Mpiexec(linuxSignals))
	for _, w := range table.commands {
		for _, word := range slices.Concat(w.likeCommands, startWords) {
			if table.rowOfCommand(word) != nil {
				t.Errorf("%s is a command of mpijob", word)
			}
		}
	}
}

// Help fits a terminal of 80 columns, and calls questions by their words.
func TestMpijobHelp(t *testing.T) {
	table := Mpijob(Mpiexec(linuxSignals))
	abouts := []string{"", "help", "options"}
	for _, w := range table.commands {
		abouts = append(abouts, w.command)
	}
	for _, about := range abouts {
		text, err := table.HelpOn(about)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if len(line) > 81 && about != "options" { // some options of mpiexec are longer
				t.Errorf("%s: %d columns: %s", about, len(line), line)
			}
		}
		if about != "options" && (strings.Contains(text, "mpiexec --evict") || strings.Contains(strings.ToLower(text), "mpiexec mpijob") || strings.Contains(text, "Mpijob")) {
			t.Errorf("%s: %s", about, text)
		}
	}
	for about, want := range map[string]string{
		"evict": "Removes claims (recorded CPUs) and",
		"-host": "-host LIST   hosts to use:",
	} {
		if text, err := table.HelpOn(about); err != nil || !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
			t.Errorf("%s: %v, %s; want %s", about, err, text, want)
		}
	}
	for about, want := range map[string]string{"sginal": "unknown command sginal (did you mean signal?)", "-ppn": "-ppn: this is an option of mpiexec, which starts jobs; mpijob does not have it"} {
		if _, err := table.HelpOn(about); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", about, err, want)
		}
	}
}

// The manual page of mpijob has every word and option, and no syntax errors.
func TestMpijobMan(t *testing.T) {
	table := Mpijob(Mpiexec(linuxSignals))
	page := table.Man("1.2-test")
	for _, w := range table.commands {
		if !strings.Contains(page, "\n.TP\n.B "+w.usage()+"\n") {
			t.Errorf("the page has no %s", w.usage())
		}
	}
	for _, o := range table.options {
		if !strings.Contains(page, `\fB`+escapeRoff(o.Dashed)+`\fR`) {
			t.Errorf("the page has no %s", o.Dashed)
		}
	}
	requireProgram(t, "man")
	out, problems := runCommand(t, page, "man", "--warnings", "-l", "-")
	if problems != "" || !strings.Contains(out, "mpijob - ask about jobs of mpiexec, and control them") {
		t.Errorf("man says %q:\n%.400s", problems, out)
	}
}

// A shell completes words, jobs, signals, hosts and the options that the word takes.
func TestMpijobCompletion(t *testing.T) {
	lists := CompletionLists{Hosts: func() []string { return []string{"n1", "n2"} }, Jobs: func() []string { return []string{"17-a", "last"} }}
	for _, test := range []struct{ line, has, not string }{
		{"s", "signal", "ps"},
		{"", "ps queue evict doctor help", "n1 --json"},
		{"help s", "signal", "ps"},
		{"-q e", "evict", ""},
		{"evict ", "17-a last", "n1 evict"},
		{"evict 17-a ", "n1 n2", "17-a"},
		{"--connect-timeout 3 evict ", "17-a", "evict"},
		{"signal US", "USR1", "17-a"},
		{"signal USR1 ", "17-a", "USR1 n1"},
		{"signal USR1 17-a ", "n1", "17-a"},
		{"ps ", "n1 n2", "17-a"},
		{"ps n1 --j", "--json", ""},
		{"evict last --j", "", "--json"},
		{"ps -", "-host -hostfile", "-n --wdir --ps --evict"},
		{"ps --color ", "always", "n1"},
		{"ps --color=al", "--color=always", ""},
		{"frobnicate ", "", "n1 ps"},
	} {
		c := Mpijob(Mpiexec(linuxSignals)).Complete(strings.Split(test.line, " "), lists)
		var offered []string
		for _, candidate := range c.Candidates {
			offered = append(offered, candidate[0])
		}
		for word := range strings.FieldsSeq(test.has) {
			if !slices.Contains(offered, word) {
				t.Errorf("%q: %q lacks %s", test.line, offered, word)
			}
		}
		for word := range strings.FieldsSeq(test.not) {
			if slices.Contains(offered, word) {
				t.Errorf("%q: %q has %s", test.line, offered, word)
			}
		}
	}
}
