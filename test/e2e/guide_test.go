//go:build linux

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// A guideBox is the text between two lines of ``` on a page of doc/guide. The words behind ``` say how it is run:
//
//	sh               by TestGuide, in a shell; it must exit with 0
//	sh exit=N        the same, with exit code N
//	sh needs=PROG    only where there is such a program
//	sh setup         as sh, but before the boxes of the page; only in testdata/guide
//	sh newcomer      by TestNewcomer, as a user who has nothing yet
//	sh ci            by TestCIJob, with a key in a variable; with needs=PROG, too
//	sh job=SYSTEM    by TestSlurm, TestSGE or TestHTCondor, which submit it
//	sh not run: WHY  by no test
//	text, toml       by no test: a picture, or lines of a file
//	yaml run         the commands of a workflow, with a docker command whose containers are hosts
type guideBox struct {
	page   string // ci for doc/guide/ci.md
	line   int    // of the line with ```
	words  string
	script string
}

// String returns the place of the box. The page of a box in testdata is a path.
func (b guideBox) String() string {
	if strings.Contains(b.page, "/") {
		return fmt.Sprintf("%s:%d", b.page, b.line)
	}
	return fmt.Sprintf("doc/guide/%s.md:%d", b.page, b.line)
}

// guidePages returns the names of the pages of doc/guide, except README.
func guidePages(t *testing.T) (pages []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repoRoot, "doc/guide/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if page := strings.TrimSuffix(filepath.Base(file), ".md"); page != "README" {
			pages = append(pages, page)
		}
	}
	return pages
}

// readBoxes returns the boxes of pages, all pages if none is named.
func readBoxes(t *testing.T, pages ...string) (all []guideBox) {
	t.Helper()
	if pages == nil {
		pages = guidePages(t)
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(repoRoot, "doc/guide", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parseBoxes(page, string(text))...)
	}
	return all
}

// parseBoxes returns the boxes in the text of a page.
func parseBoxes(page, text string) (all []guideBox) {
	var open *guideBox
	for i, line := range strings.Split(text, "\n") {
		words, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &guideBox{page: page, line: i + 1, words: words}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.script += line + "\n"
		}
	}
	return all
}

// parseRun returns whether TestGuide runs the box, and the exit code that the box must have.
func (b guideBox) parseRun() (run bool, code int, err error) {
	language, rest, _ := strings.Cut(b.words, " ")
	key, value, _ := strings.Cut(rest, "=")
	switch {
	case language == "sh" && (rest == "" || rest == "setup"), language == "yaml" && rest == "run":
		return true, 0, nil
	case language == "text" || language == "toml": // shows something
		return false, 0, nil
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
	return false, 0, fmt.Errorf("no test runs a box of %q", b.words)
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

// guideFolder creates the folder in which the commands of a page run, with hello.c and the commands mpiexec, mpijob and docker.
// The hosts see it under the same path.
func guideFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "guide-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin := filepath.Join(dir, ".bin")
	err = errors.Join(os.Chmod(dir, 0o755), os.Symlink(filepath.Join(repoRoot, "testdata/mpi/hello.c"), filepath.Join(dir, "hello.c")),
		os.Mkdir(bin, 0o755), os.Symlink(binary, filepath.Join(bin, "mpiexec")), os.Symlink(binary, filepath.Join(bin, "mpijob")),
		os.WriteFile(filepath.Join(bin, "docker"), []byte(fakeDocker), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// The commands on each page of the guide run on four fresh hosts and print what the page quotes. The commands of the page
// installing remove what the others have left there.
func TestGuide(t *testing.T) {
	requireNamespaces(t)
	toRun := make(map[string][]guideBox)
	all := 0
	for _, x := range readBoxes(t) {
		run, _, err := x.parseRun()
		if err != nil {
			t.Errorf("%v: %v", x, err)
		}
		if run {
			toRun[x.page] = append(toRun[x.page], x)
			all++
		}
	}
	if remove := toRun["installing"]; all < 40 || len(remove) != 1 {
		t.Fatalf("%d boxes are run, and %d of them remove what is left on hosts", all, len(remove))
	}
	vary := make(map[string][]string)
	for _, page := range guidePages(t) {
		hidden, words := readHidden(t, page)
		for _, x := range hidden {
			run, _, err := x.parseRun()
			if err != nil {
				t.Errorf("%v: %v", x, err)
			}
			switch {
			case x.words == "sh setup":
				toRun[page] = append([]guideBox{x}, toRun[page]...)
			case run:
				toRun[page] = append(toRun[page], x)
			}
		}
		vary[page] = words
		if toRun[page] == nil {
			checkQuotes(t, page, nil, nil) // there may be none
		}
	}
	// Pages with much to run start first, so that none of them runs alone at the end.
	size := func(page string) (n int) {
		for _, x := range toRun[page] {
			n += len(x.script)
		}
		return n
	}
	pages := slices.SortedFunc(maps.Keys(toRun), func(a, b string) int { return cmp.Compare(size(b), size(a)) })
	for _, page := range pages {
		boxes := toRun[page]
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			outputs := testPage(t, boxes, toRun["installing"][0])
			checkQuotes(t, page, outputs, vary[page])
		})
	}
}

// testPage runs the boxes of a page, and then the one that removes what they leave on the hosts. It returns what each box
// prints.
func testPage(t *testing.T, boxes []guideBox, remove guideBox) (outputs []string) {
	b := newTestCluster(t, testbed.Options{Hosts: 4})
	for _, h := range b.Hosts { // pages change settings in /etc, which hosts share with this machine
		b.runOn(t, h.Name, "sh", "-ec", "mount -t tmpfs -o mode=755 etc /mnt; cp -a /etc/. /mnt; mount --bind /mnt /etc; umount /mnt")
	}
	dir := guideFolder(t)
	for _, x := range append(boxes, remove) {
		_, want, _ := x.parseRun()
		began := time.Now()
		if strings.HasPrefix(x.words, "yaml") {
			x.script = workflowSteps(x.script)
		}
		// A box may have compiled these. Programs of Debian 12's MPICH hang in MPI_Finalize at times when the machine
		// is busy (MPICH 4.0.2 over UCX: one rank waits for a peer that is in the barrier).
		for _, name := range []string{"hello", "steps"} {
			if err := relink(mpiProgram(t, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		out, code := b.runScript(t, dir, x.script)
		outputs = append(outputs, out)
		t.Logf("%v: %v\n%s", x, time.Since(began).Round(time.Millisecond), out)
		if code != want {
			t.Errorf("%v: exit %d, want %d\n%s", x, code, want, x.script)
		}
		if missing := notContinued(x.script, out); missing != "" {
			t.Errorf("%v: %s\n%s", x, missing, x.script)
		}
	}
	for _, h := range b.Hosts {
		if left := b.runOn(t, h.Name, "sh", "-c", "find ~/.cache /tmp /var/tmp /dev/shm /run -name 'remshell*' 2>/dev/null; true"); left != "" {
			t.Errorf("left on %s:\n%s", h.Name, left)
		}
	}
	return outputs
}

// secondAttempts are jobs of the guide that are started again, and what their second attempts write, in this order.
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

func TestContinuationOfTheGuide(t *testing.T) {
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

// pauseCommands replaces sleep, where the guide gives people a pause to look: it waits until there is something to see, first
// a job that runs, then one that waits. A pause of less than a second stays as it is.
const pauseCommands = `look=--ps
sleep() {
	case $1 in *.*) command sleep "$1"; return ;; esac
	tries=0
	until mpiexec $look | grep -q COMMAND || test $((tries=tries+1)) -gt 200; do command sleep 0.1; done
	look=--queue
}
`

// runScript runs commands on the head in the folder dir, until one fails.
func (b *testCluster) runScript(t *testing.T, dir, text string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	// timeout(1) ends all processes of the commands, and first asks them to end.
	cmd := b.Command(ctx, []string{"PATH=" + dir + "/.bin:" + os.Getenv("PATH")}, "timeout", "-k", "20", "120", "/bin/sh", "-ec", "cd '"+dir+"'\n"+pauseCommands+text)
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
