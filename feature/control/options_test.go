package control

import (
	"strings"
	"testing"

	"remshell/cli/option"
	"remshell/usererr"
)

// The commands of mpijob are options of mpiexec, and commands of other programs lead to them.
func TestWordsOfMpijob(t *testing.T) {
	table := option.Mpijob(option.Mpiexec(func(string) int { return 1 }))
	for _, test := range []struct{ line, args, hint string }{
		{"end --connect-timeout 3 last n1", "--end=last --connect-timeout 3 n1", ""},
		{"suspend last", "--suspend=last", ""},
		{"resume last", "--resume-job=last", ""},
		{"end", "", "write mpijob end JOB; mpijob ps lists the jobs"},
		{"scancel last", "", "mpijob end JOB: end a job, or remove a request from the queue"},
		{"kill last", "", "mpijob end JOB: end a job, or remove a request from the queue; mpijob signal SIG JOB: send a signal to the ranks of a job"},
		{"pause last", "", "mpijob suspend JOB: stop all ranks of a job"},
		{"resume-job last", "", "mpijob resume JOB: continue a suspended job"},
	} {
		line, args, err := table.Parse(strings.Fields(test.line), option.Sources{})
		if got := strings.Join(args, " "); test.hint == "" && (err != nil || got != test.args || line.Query.Job != "last") {
			t.Errorf("%s: %s, %+v, %v", test.line, got, line.Query, err)
		}
		if hint := usererr.Hint(err); hint != test.hint {
			t.Errorf("%s: %v; %s, want %s", test.line, err, hint, test.hint)
		}
	}
	for word, want := range map[string]string{
		"resume":  "Continues a job that mpijob suspend has stopped. To continue a saved job, use mpiexec --resume FILE.",
		"suspend": "Stops the ranks of JOB and their child processes,",
	} {
		if text, err := table.HelpOn(word); err != nil || !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
			t.Errorf("%s: %v\n%s", word, err, text)
		}
	}
}

// --suspend=free is gone. A line with it has no other error.
func TestSuspendFreeIsGone(t *testing.T) {
	for _, args := range [][]string{{"--suspend=free"}, {"--suspend=free", "last"}, {"--suspend", "free", "last"}} {
		_, err := option.Mpiexec(func(string) int { return 1 }).Parse(args, option.Sources{})
		if want := "--suspend=free was removed"; err == nil || err.Error() != want {
			t.Errorf("%q: %v", args, err)
		}
	}
}
