//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A lyingHelpers is a test cluster whose n2 has another program (testdata/liar) in the place of ours. That program starts
// the real helper and puts forged frames between the true ones.
type lyingHelpers struct {
	*testCluster
	dir         string // that all hosts see
	liarProgram string
	program     string // mpiexec, where hosts see it
	build       string
}

func newLyingHelpers(t *testing.T) *lyingHelpers {
	t.Helper()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	if err := os.MkdirAll(filepath.Join(repoRoot, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "liars-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &lyingHelpers{testCluster: b, dir: dir, liarProgram: filepath.Join(dir, "liar"), program: filepath.Join(dir, "mpiexec")}
	if err := build(l.liarProgram, "./testdata/liar"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(binary)
	if err == nil {
		err = os.WriteFile(l.program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := exec.Command("go", "tool", "buildid", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	l.build = string(id[strings.LastIndexByte(string(id), '/')+1:])
	return l
}

// writeHelper writes the program that tells a lie in the place of ours: a script without "#!", since the identity of a
// build has to be in its first line.
func (l *lyingHelpers) writeHelper(t *testing.T, lie string) string {
	t.Helper()
	script := fmt.Sprintf(": %sexec %s \"%s\" %s \"$@\"\n", l.build, l.liarProgram, lie, l.program)
	name := filepath.Join(l.dir, "helper")
	os.Remove(name) // the one before may still be read
	if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// honestProgram is the program of the ranks: 0 and 1 on n1, 2 and 3 on n2. When all of them can catch SIGTERM, rank 2
// prints "go", and then the helper tells its lie.
const honestProgram = `cd "$1"; trap 'echo term $MPIEXEC_RANK; exit 0' TERM; : >up.$MPIEXEC_RANK
if [ $MPIEXEC_RANK = 2 ]; then until [ -e up.0 -a -e up.1 -a -e up.3 ]; do sleep 0.01; done; echo go; fi
if [ $MPIEXEC_RANK = 0 -a "$2" ]; then until [ -e up.1 -a -e up.2 -a -e up.3 ]; do sleep 0.01; done; exit $2; fi
while :; do sleep 0.05; done`

// runWithLie runs a job with a lie on n2.
func (l *lyingHelpers) runWithLie(t *testing.T, lie, code string, args ...string) result {
	t.Helper()
	for rank := range 4 {
		os.Remove(filepath.Join(l.dir, fmt.Sprint("up.", rank)))
	}
	hosts := hostFile(t, "n1 slots=2", "n2 slots=2 path="+l.writeHelper(t, lie))
	args = append([]string{"-f", hosts, "-n", "4"}, args...)
	return l.runMpiexec(t, append(args, "sh", "-c", honestProgram, "sh", l.dir, code)...)
}

// foreignExitText is the violation of a helper that reports an exit of rank 0, which is not its own.
const foreignExitText = "the host sent a message about rank 0, which does not run there"

// What a helper says of ranks that are not its own, or may not say, has no effect but its own
// end: one line, 125, and the ranks of the other host are told to end as usual (TRUST-2 to 4).
func TestLyingHelpers(t *testing.T) {
	t.Parallel()
	l := newLyingHelpers(t)
	for _, test := range []struct{ lie, violation string }{
		{"exit of another", foreignExitText},
		{"output of another", foreignExitText},
		{"errors of another", foreignExitText},
		{"abort of another", foreignExitText},
		{"junk of another", foreignExitText},
		{"start of another", foreignExitText},
		{"failed start of another", foreignExitText},
		{"credit of another", foreignExitText},
		{"end of another's input", foreignExitText},
		{"trace of another", foreignExitText},
		{"states of another", foreignExitText},
		{"spawn for another", foreignExitText},
		{"rank that is none", "the host sent a message about rank 99, which does not run there"},
		{"negative rank", "the host sent a Data message with an impossible value: rank -1"},
		{"rank beyond all tables", "the host sent a Data message with an impossible value: rank 1099511627776"},
		{"start told twice", "the host sent a message about rank 2, which has ended"},
		{"exit code 256", "the host sent an Exited message with an impossible value: code 256"},
		{"exit code 2^32", "the host sent an Exited message with an impossible value: code 4294967296"},
		{"exit code -1", "the host sent an Exited message with an impossible value: code -1"},
		{"signal 65", "the host sent an Exited message with an impossible value: signal 65"},
		{"output behind its end", "the host sent more output than mpiexec allowed"},
		{"stream 7", "the host sent a Data message with an impossible value: stream 7"},
		{"fence out of turn", "the host opened 3 fences at once"},
		{"fence of another group", "the host sent a reply that mpiexec had not requested"},
		{"answer without question", "the host sent a reply that mpiexec had not requested"},
		{"second Prepared", "the host sent a reply that mpiexec had not requested"},
		{"second Refused", "the host sent a reply that mpiexec had not requested"},
		{"drained too early", "the host sent the message Drained before it reported the end of rank 2"},
		{"Prepare to mpiexec", "the host sent the message Prepare, which only mpiexec may send"},
		{"Signal to mpiexec", "the host sent the message Signal, which only mpiexec may send"},
		{"frame too large", "the host sent a LedgerListed message of 33554432 bytes, which is too large"},
		{"unknown kind", "the host sent a message of unknown kind 77, or with a malformed body"},
		{"frame that ends early", "the host sent a message of unknown kind 15, or with a malformed body"},
		{"bytes too many", "the host sent a message of unknown kind 51, or with a malformed body"},
		{"request told twice", "the host sent a RankMapRequest message with an impossible value: ID 1048576"},
		{"second greeting", "the host sent the message Hello twice"},
	} {
		r := l.runWithLie(t, test.lie, "")
		want := regexp.MustCompile(`(?m)^mpiexec: lost contact with n2 \(` + regexp.QuoteMeta(test.violation) + `\) after 00:00:\d\d, where ranks 2-3 ran$`)
		if r.code != 125 || !want.MatchString(r.err) || strings.Contains(r.err, "forged") {
			t.Errorf("%s: exit %d, want 125 and %q\n%s", test.lie, r.code, test.violation, r.err)
		}
		for _, line := range []string{"go\n", "term 0\n", "term 1\n"} {
			if !strings.Contains(r.out, line) {
				t.Errorf("%s: no %q in %q", test.lie, line, r.out)
			}
		}
		if _, err := os.Stat(filepath.Join(l.dir, "forged")); err == nil || strings.Contains(r.out, "forged") {
			t.Errorf("%s: it had an effect: %q", test.lie, r.out)
		}
	}
}

// A host can say that root asks for something: mpiexec, which runs the command for checkpoints on its own machine, does so
// a few times, and says by whose word alone it ends the job.
func TestForgedAsks(t *testing.T) {
	t.Parallel()
	l := newLyingHelpers(t)
	ran := filepath.Join(t.TempDir(), "ran")
	began := time.Now()
	r := l.runWithLie(t, "root asks", "", "--ckpt-cmd", "echo x >>"+ran, "--kill-grace", "1")
	most := 8 + int(time.Since(began)/(10*time.Second))
	text, err := os.ReadFile(ran)
	if n := strings.Count(string(text), "x"); err != nil || n == 0 || n > most {
		t.Errorf("the command ran %d times in %v (%v)", n, time.Since(began), err)
	}
	if r.code != 143 || !strings.Contains(r.err, "mpiexec: n2 says: the job was ended by root with --end") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
}

// Output that is forged stands under nobody's label, and in nobody's file.
func TestForgedOutputIsNowhere(t *testing.T) {
	l := newLyingHelpers(t)
	files := filepath.Join(t.TempDir(), "out.%r")
	r := l.runWithLie(t, "output of another", "", "-l", "-outfile-pattern", files)
	if text, err := os.ReadFile(strings.ReplaceAll(files, "%r", "0")); r.code != 125 || err != nil || string(text) != "[0] term 0\n" && string(text) != "term 0\n" {
		t.Errorf("exit %d, %v: %q\n%s", r.code, err, text, r.err)
	}
	if r = l.runWithLie(t, "output of another", "", "-l"); r.code != 125 || strings.Contains(r.out, "forged") || !strings.Contains(r.out, "[0] term 0\n") {
		t.Errorf("exit %d: %q\n%s", r.code, r.out, r.err)
	}
}

// What rank 0 exits with is what its own node says, whatever another one adds at the end.
func TestForgedExitAtTheEnd(t *testing.T) {
	l := newLyingHelpers(t)
	if r := l.runWithLie(t, "exit at the end", "3"); r.code != 3 || !strings.Contains(r.err, "rank 0 on n1 exited with code 3\n") {
		t.Errorf("exit %d, want 3\n%s", r.code, r.err)
	}
}

// Before the start a host that lies is not used: with 125, or the job does without it, where
// it may.
func TestLyingBeforeTheStart(t *testing.T) {
	l := newLyingHelpers(t)
	for _, test := range []struct{ lie, violation string }{
		{"meeting point", foreignExitText},
		{"exit before the start", "the host sent the message Exited before the start"},
		{"output before the start", "the host sent the message Data before the start"},
		{"CPU 2^40", "the host sent a NodeInfo message with an impossible value: CPU 1099511627776"},
		{"CPU -1", "the host sent a NodeInfo message with an impossible value: CPU -1"},
	} {
		r := l.runWithLie(t, test.lie, "")
		if r.code != 125 || !strings.HasPrefix(r.err, "mpiexec: n2: "+test.violation+"; not used") || r.out != "" {
			t.Errorf("%s: exit %d, %q, want 125 and %q\n%s", test.lie, r.code, r.out, test.violation, r.err)
		}
	}
	hosts := hostFile(t, "n1 slots=2", "n2 slots=2 path="+l.writeHelper(t, "second Hello"))
	r := l.runMpiexec(t, "--skip-unreachable", "-f", hosts, "-n", "2", "true")
	if r.code != 0 || r.err != "mpiexec: n2: the host sent the message Hello twice; not used\n" {
		t.Errorf("exit %d without it\n%s", r.code, r.err)
	}
}

// Two hosts that claim to be one machine, and cannot show it, are not used: neither takes the
// ranks of the other (TRUST-6).
func TestClaimedIdentity(t *testing.T) {
	l := newLyingHelpers(t)
	helper := l.writeHelper(t, "identity")
	hosts := hostFile(t, "n1 slots=1 path="+helper, "n2 slots=1 path="+helper)
	r := l.runMpiexec(t, "-f", hosts, "-n", "2", "true")
	if want := "mpiexec: n1 and n2 both report machine ID one and the same, but are different machines; n1 and n2 are not used\n"; r.code != 125 || r.err != want {
		t.Errorf("exit %d, %q, want 125 and %q", r.code, r.err, want)
	}
}
