package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"remshell/cli/option"
)

// The names apstat and apkill take the words of Cray's commands: each line means one of mpijob (aprun.md 7).
func TestApstatAndApkill(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"apstat", "ps"},
		{"apstat -a n1 n2", "ps n1 n2"},
		{"apstat -av --json n1", "ps -v --json n1"},
		{"apstat -host n1", "ps -host n1"},
		{"apstat -n n1", "doctor n1"},
		{"apstat -p", "queue"},
		{"apstat -A 17-a n1", "status 17-a n1"},
		{"apstat n1 -vA 17-a", "status 17-a n1 -v"},
		{"apstat -A", "-A: no job given"},
		{"apstat -A 1 -A 2", "-A is given twice, but apstat prints the state of only one job"},
		{"apstat -an", "-a and -n cannot be used together"},
		{"apstat -G", "apstat has no option -G"},
		{"apkill 17-a n1", "end 17-a n1"},
		{"apkill -9 17-a", "signal 9 17-a"},
		{"apkill -SIGUSR1 17-a n1", "signal USR1 17-a n1"},
		{"apkill 17-a KILL n1", "signal KILL 17-a n1"},
		{"apkill 17-a --host n1", "end 17-a --host n1"},
		{"apkill -9 17", "signal 9 17"},
		{"apkill -NONE 17-a", "-NONE is not a signal"},
	} {
		words := strings.Fields(test.line)
		got, _, err := statusFrontEnds[words[0]](words[1:], option.Mpijob(option.Mpiexec(signalNumber)))
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != test.want {
			t.Errorf("%s: %q, want %q", test.line, text, test.want)
		}
	}
}

// A program that is called apstat, apkill, psiadmin or psmgr answers in that name, and says what to use for what does not exist here.
func TestStatusFrontEndsAnswer(t *testing.T) {
	for _, test := range []struct {
		line, out, err string
		code           int
	}{
		{"/usr/bin/apstat --help", "-p      list waiting requests: mpijob queue", "", 0},
		{"apkill -h", "apkill [-SIG] JOB", "", 0},
		{"mpiexec --apstat --help", "apstat [-a | -n | -p | -A JOB]", "", 0},
		{"apkill", "", "apkill: end: no job given\n", 125},
		{"apstat -A @ n1", "", "apstat: ", 125},
		{"psmgr n1", "", "psmgr: psmgr controls process managers on hosts, but mpiexec needs no process managers\n  hint: use mpijob ps to list jobs", 125},
		{"psiadmin -c list", "", "psiadmin: psiadmin controls ParaStation daemons, but mpiexec needs no daemons\n  hint: use mpijob ps to list jobs", 125},
	} {
		var out, errs bytes.Buffer
		code := Main(t.Context(), FrontEndArgs(strings.Fields(test.line)), System{In: strings.NewReader(""), Out: &out, Err: &errs, Getwd: os.Getwd, FS: withAccount(t.TempDir())})
		if code != test.code || !strings.Contains(out.String(), test.out) || !strings.HasPrefix(errs.String(), test.err) || test.err == "" && errs.Len() > 0 {
			t.Errorf("%s: exit %d: %q %q", test.line, code, out.String(), errs.String())
		}
	}
}
