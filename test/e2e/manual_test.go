//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A manualBox is one of the manual's: what stands between two lines of ```. Behind the language
// stands how it is run:
//
//	sh               by a shell, in order, with one folder for all; it must succeed
//	sh exit=N        its last command must leave with N
//	sh needs=PROG    only where there is such a program
//	sh newcomer      by TestNewcomer alone, who has nothing yet
//	sh ci            by TestCIJob alone, who has a key in a variable; with needs=PROG, too
//	sh job=SYSTEM    by TestSlurm or TestSGE, who hand it in
//	sh not run: WHY  by nobody
//	yaml run         the commands of a workflow, with a docker that leads to the hosts
type manualBox struct {
	line    int    // of the manual
	section string // in which it stands
	words   string
	script  string
}

// manualBoxes finds them.
func manualBoxes(manual string) (all []manualBox) {
	var open *manualBox
	section := ""
	for i, line := range strings.Split(manual, "\n") {
		words, fence := strings.CutPrefix(line, "```")
		title, heading := strings.CutPrefix(line, "## ")
		switch {
		case heading && open == nil:
			section = title
		case fence && open == nil:
			open = &manualBox{line: i + 1, section: section, words: words}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.script += line + "\n"
		}
	}
	return all
}

// parseRun reads the words behind the language. The code is that with which it must leave.
func (b manualBox) parseRun() (run bool, code int, err error) {
	language, rest, _ := strings.Cut(b.words, " ")
	key, value, _ := strings.Cut(rest, "=")
	switch {
	case language == "sh" && rest == "", language == "yaml" && rest == "run":
		return true, 0, nil
	case language == "sh" && key == "exit":
		code, err = strconv.Atoi(value)
		return true, code, err
	case language == "sh" && key == "needs":
		_, missing := exec.LookPath(value)
		return missing == nil, 0, nil
	case language == "sh" && key == "job" && slices.Contains([]string{"slurm", "sge", "condor", "condor.sub"}, value):
		return false, 0, nil
	case language == "sh" && (rest == "newcomer" || ci.MatchString(b.words) || strings.HasPrefix(rest, "not run: ")):
		return false, 0, nil
	}
	return false, 0, fmt.Errorf("nobody knows how to run a box of %q", b.words)
}

// workflowSteps are the commands of a workflow file: "run: COMMAND", or the lines that are further
// in than "run: |".
func workflowSteps(workflow string) string {
	var script strings.Builder
	depth := -1 // of the run that is being read
	for line := range strings.Lines(workflow) {
		text := strings.TrimLeft(line, " ")
		if in := len(line) - len(text); depth >= 0 && in > depth {
			script.WriteString(text)
			continue
		}
		depth = -1
		command, found := strings.CutPrefix(text, "run: ")
		switch {
		case found && strings.TrimSpace(command) == "|":
			depth = len(line) - len(text)
		case found:
			script.WriteString(command)
		}
	}
	return script.String()
}

// fakeDocker is a docker command whose containers are hosts of the test cluster.
const fakeDocker = `#!/bin/sh
[ "$1" = exec ] || exit 0
[ "$2" = -i ] || exit 1
shift 2
exec ssh "$@"
`

// manualFolder is the folder in which the manual's commands are run, with all that they
// take to be there. The hosts see it under the same path.
func manualFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "manual-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin := filepath.Join(dir, ".bin")
	err = errors.Join(os.Chmod(dir, 0o755), os.Symlink(filepath.Join(repoRoot, "testdata/mpi/hello.c"), filepath.Join(dir, "hello.c")),
		os.Mkdir(bin, 0o755), os.Symlink(binary, filepath.Join(bin, "mpiexec")),
		os.WriteFile(filepath.Join(bin, "docker"), []byte(fakeDocker), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Every command of the manual runs (issue 7).
func TestManual(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join(repoRoot, "doc/manual.md"))
	if err != nil {
		t.Fatal(err)
	}
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	b.requireNamespaces(t)
	dir := manualFolder(t)
	t.Chdir(dir)
	ran := 0
	for _, x := range manualBoxes(string(manual)) {
		run, want, err := x.parseRun()
		if err != nil {
			t.Errorf("doc/manual.md:%d: %v", x.line, err)
		}
		if !run {
			continue
		}
		ran++
		began := time.Now()
		if strings.HasPrefix(x.words, "yaml") {
			x.script = workflowSteps(x.script)
		}
		// What mpicc.mpich of Debian 12 makes hangs in MPI_Finalize at times when the machine
		// is busy (MPICH 4.0.2 over UCX: one rank waits for a peer that is in the barrier).
		for _, name := range []string{"hello", "steps"} {
			if err := relink(mpiProgram(t, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		out, code := b.runScript(t, dir, x.script)
		t.Logf("doc/manual.md:%d: %v", x.line, time.Since(began).Round(time.Millisecond))
		if code != want {
			t.Errorf("doc/manual.md:%d: exit %d, want %d\n%s\n%s", x.line, code, want, x.script, out)
		}
		if missing := notContinued(x.script, out); missing != "" {
			t.Errorf("doc/manual.md:%d: %s\n%s\n%s", x.line, missing, x.script, out)
		}
	}
	if ran < 20 {
		t.Errorf("only %d boxes were run", ran)
	}
	for _, h := range b.Hosts { // the last box removes all
		if left := b.runOn(t, h.Name, "sh", "-c", "find ~/.cache /tmp /var/tmp /dev/shm /run -name 'remshell*' 2>/dev/null; true"); left != "" {
			t.Errorf("left on %s:\n%s", h.Name, left)
		}
	}
}

// secondAttempts are jobs of the manual that are started again, and what their second attempts write, in this order.
var secondAttempts = map[string][]string{
	" ./steps ":            {`(?m)^(\d+) [0-9.e+-]+$`, `(?m)^goes on behind step (\d+)$`, `(?m)^all 80 steps are done$`},
	" python3 sweep.py ":   {`(?m)^it left with 85$`, `(?m)^rank 0 of 2 is through; attempt 1$`},
	" --restart-delay 1 .": {`(?m)^attempt 1 is at 10$`},
	" job.json ./count":    {`(?m)^it ended with code 85$`, `(?m)^attempt 1 is at 10$`},
	" train.py 30 ":        {`(?m)^goes on behind epoch (\d+)$`, `(?m)^epoch 30: `},
}

// notContinued says what a box does not show of a job that goes on where its first attempt was. It is empty if all is shown, or
// if no job of the box is started again. What a pattern has in parentheses is the step that was reached: it never goes down.
func notContinued(script, out string) string {
	for command, patterns := range secondAttempts {
		step := 1
		for rest := out; strings.Contains(script, command) && len(patterns) > 0; patterns = patterns[1:] {
			at := regexp.MustCompile(patterns[0]).FindStringSubmatchIndex(rest)
			if at == nil {
				return "the second attempt does not write " + patterns[0]
			}
			if len(at) > 2 {
				reached, _ := strconv.Atoi(rest[at[2]:at[3]])
				if reached < step {
					return fmt.Sprintf("the second attempt begins at step %d, and the checkpoint was of step %d", reached, step)
				}
				step = reached
			}
			rest = rest[at[1]:]
		}
	}
	return ""
}

func TestContinuationOfTheManual(t *testing.T) {
	const script = "mpiexec -n 2 ./steps 80\n"
	for out, want := range map[string]string{
		"20 6.79\ngoes on behind step 20\nall 80 steps are done\n": "",
		"20 6.79\ngoes on behind step 19\nall 80 steps are done\n": "the second attempt begins at step 19, and the checkpoint was of step 20",
		"20 6.79\nall 80 steps are done\n":                         "the second attempt does not write (?m)^goes on behind step (\\d+)$",
	} {
		if got := notContinued(script, out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
	if got := notContinued("mpiexec -n 2 true\n", ""); got != "" {
		t.Error(got)
	}
}

// relink makes a name lead to a file, whatever it was.
func relink(file, name string) error {
	os.Remove(name)
	return os.Symlink(file, name)
}

// pauseCommands lets the shell wait, where the manual gives people a pause to look, for what there
// is to be seen: first a job that runs, then one that waits. A pause of less than a second is none of these.
const pauseCommands = `look=--ps
sleep() {
	case $1 in *.*) command sleep "$1"; return ;; esac
	tries=0
	until mpiexec $look | grep -q COMMAND || test $((tries=tries+1)) -gt 200; do command sleep 0.1; done
	look=--queue
}
`

// runScript runs commands on the head, until one fails.
func (b *testCluster) runScript(t *testing.T, dir, text string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	// timeout(1) ends all that the commands have started, and first asks it to.
	cmd := b.Command(ctx, []string{"PATH=" + dir + "/.bin:" + os.Getenv("PATH")}, "timeout", "-k", "20", "120", "/bin/sh", "-ec", pauseCommands+text)
	cmd.WaitDelay = 3 * time.Second
	all, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s: %v\n%s", text, err, all)
	}
	return string(all), exitCode(cmd.ProcessState)
}

func TestStepsOfAWorkflow(t *testing.T) {
	got := workflowSteps("jobs:\n  - name: a\n    run: |\n      one\n        two\n    env: x\n  - uses: y\n  - name: b\n    run: three\n")
	if want := "one\ntwo\nthree\n"; got != want {
		t.Errorf("steps %q, want %q", got, want)
	}
}
