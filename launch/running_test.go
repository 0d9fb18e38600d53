//go:build linux

package launch_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/usererr"
)

func TestRanksSeeTheirPlace(t *testing.T) {
	r := launchtest.NewRun(3, `echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $MPIEXEC_NODE_RANK/$MPIEXEC_NNODES $MPIEXEC_HOST`, "a:2", "b")
	result, err := r.Do(t)
	want := "0/3 0/2 0/2 a\n1/3 1/2 0/2 a\n2/3 0/1 1/2 b\n"
	if got := launchtest.SortLines(r.Out.String()); err != nil || result.Code != 0 || got != want {
		t.Errorf("code %d, %v, stderr %q\n got %q\nwant %q", result.Code, err, r.Err.String(), got, want)
	}
}

func TestRanksHoldNoStrayDescriptors(t *testing.T) {
	r := launchtest.NewRun(1, `ls /proc/self/fd | tr '\n' ' '`, "a")
	if _, err := r.Do(t); err != nil || r.Out.String() != "0 1 2 3 4 " { // 4 is ls reading the directory
		t.Errorf("descriptors %q, %v", r.Out.String(), err)
	}
}

func TestStdinGoesToRank0AndTheOthersHaveNone(t *testing.T) {
	r := launchtest.NewRun(3, `wc -c`, "a:2", "b")
	r.In = bytes.NewReader(make([]byte, 3_000_000))
	if _, err := r.Do(t); err != nil || launchtest.SortLines(r.Out.String()) != "0\n0\n3000000\n" {
		t.Errorf("counts %q, %v", launchtest.SortLines(r.Out.String()), err)
	}
}

func TestARankThatReadsNothingEndsWithAnyInput(t *testing.T) {
	r := launchtest.NewRun(1, `exec 0<&-; exit 0`, "a")
	r.In = endless{}
	if result, err := r.Do(t); err != nil || result.Code != 0 {
		t.Errorf("code %d, %v", result.Code, err)
	}
}

// endless is an input without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAllOutputArrivesBeforeTheEnd(t *testing.T) {
	r := launchtest.NewRun(4, `head -c 1000000 /dev/zero; printf done >&2`, "a:2", "b:2")
	if _, err := r.Do(t); err != nil || len(r.Out.String()) != 4_000_000 || r.Err.String() != strings.Repeat("done", 4) {
		t.Errorf("%d bytes, stderr %q, %v", len(r.Out.String()), r.Err.String(), err)
	}
}

func TestLabels(t *testing.T) {
	r := launchtest.NewRun(2, `printf 'one\ntwo'`, "a", "b")
	r.Req.Streams.Out.Label = "[%r] "
	if _, err := r.Do(t); err != nil || launchtest.SortLines(r.Out.String()) != "[0] one\n[0] two\n[1] one\n[1] two\n" {
		t.Errorf("output %q, %v", r.Out.String(), err)
	}
}

func TestFirstFailureNamesTheRankAndEndsTheOthers(t *testing.T) {
	// The rank that fails waits for the others: a rank that does not run yet cannot be stopped.
	r := launchtest.NewRun(4, `cd `+t.TempDir()+`; >$PMI_RANK
		if [ $PMI_RANK = 2 ]; then until [ -e 0 -a -e 1 -a -e 3 ]; do sleep 0.01; done; exit 3; fi
		exec sleep 600`, "a:2", "b:2")
	result, err := r.Do(t)
	if err != nil || result.Code != 3 || !strings.HasPrefix(r.Report(), "rank 2 on b exited with code 3\n") ||
		!strings.Contains(r.Report(), "mpiexec ended 3 other ranks") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.Report())
	}
}

func TestASignalIsNamed(t *testing.T) {
	r := launchtest.NewRun(2, `if [ $PMI_RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 600`, "a", "b")
	result, err := r.Do(t)
	if err != nil || result.Code != 139 || !strings.HasPrefix(r.Report(), "rank 1 on b died: Segmentation fault (signal 11)") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.Report())
	}
}

// A job leaves nothing behind: neither ranks that ignore SIGTERM nor children in sessions of their
// own.
func TestAFailedJobLeavesNothingBehind(t *testing.T) {
	r := launchtest.NewRun(2, `trap '' TERM; setsid sleep 600 & echo $! $$; if [ $PMI_RANK = 1 ]; then exit 9; fi; while :; do sleep 600; done`, "a", "b")
	result, err := r.Do(t)
	if err != nil || result.Code != 9 {
		t.Errorf("code %d, %v", result.Code, err)
	}
	for pid := range strings.FieldsSeq(r.Out.String()) {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s is still there", pid)
		}
	}
}

func TestALeftoverChildDoesNotHoldTheJob(t *testing.T) {
	began := time.Now()
	r := launchtest.NewRun(1, `(sleep 600; echo late) & echo $!`, "a")
	result, err := r.Do(t)
	if err != nil || result.Code != 0 || time.Since(began) > 5*time.Minute {
		t.Errorf("code %d, %v after %v", result.Code, err, time.Since(began))
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(r.Out.String())); err == nil {
		t.Error("the child is still there")
	}
}

func TestAKilledHelperIsALostNode(t *testing.T) {
	r := launchtest.NewRun(3, `echo ready; exec sleep 600`, "a", "b", "c")
	ready := r.Out.Shows("ready\nready\nready\n")
	go func() {
		<-ready
		syscall.Kill(r.Helpers.PID("b"), syscall.SIGKILL)
	}()
	result, err := r.Do(t)
	if err != nil || result.Code != 125 || !strings.Contains(r.Report(), "lost contact with b") ||
		!strings.Contains(r.Report(), "where rank 1 ran") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.Report())
	}
}

func TestInterruptGoesToTheRanks(t *testing.T) {
	r := launchtest.NewRun(2, `trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.1; done`, "a", "b")
	ready := r.Out.Shows("ready\nready\n")
	go func() {
		<-ready
		r.Signals <- syscall.SIGINT
	}()
	result, err := r.Do(t)
	if err != nil || result.Code != 130 || r.Report() != "" || strings.Count(r.Out.String(), "caught") != 2 ||
		!strings.Contains(r.Err.String(), "^C: mpiexec sent SIGINT to 2 ranks on 2 nodes") {
		t.Errorf("code %d, %v, report %q, stdout %q, stderr %q", result.Code, err, r.Report(), r.Out.String(), r.Err.String())
	}
}

// If our stdout is not read, neither a timeout nor a signal waits for it.
func TestAStuckTerminalHoldsNoEnd(t *testing.T) {
	terminal := launchtest.NewStuckWriter()
	defer close(terminal.Release)
	r := launchtest.NewRun(1, `exec yes`, "a")
	r.Stdout = terminal
	r.Req.TimeLimits.Run = 200 * time.Millisecond
	if result, err := r.Do(t); err != nil || result.Code != 124 {
		t.Errorf("timeout: code %d, %v", result.Code, err)
	}
	r = launchtest.NewRun(1, `echo well; echo ready >&2`, "a")
	r.Stdout = terminal
	ready := r.Err.Shows("ready")
	go func() {
		<-ready
		r.Signals <- syscall.SIGTERM
	}()
	if result, err := r.Do(t); err != nil || result.Code != 143 {
		t.Errorf("SIGTERM: code %d, %v", result.Code, err)
	}
}

// ^Z stops the ranks before mpiexec, and continues them after it.
func TestSuspendStopsTheRanks(t *testing.T) {
	// There is no sleep in the loop: a shell that waits in vfork cannot stop before its child.
	r := launchtest.NewRun(1, `trap 'exit 0' USR1; echo $$; while :; do :; done`, "a")
	ready := r.Out.Shows("\n")
	stateOf := func() string {
		stat, _ := os.ReadFile("/proc/" + strings.TrimSpace(r.Out.String()) + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		return rest[:min(1, len(rest))]
	}
	go func() {
		<-ready
		r.Signals <- syscall.SIGTSTP
		<-r.Suspended
		for deadline := time.Now().Add(5 * time.Minute); stateOf() != "T" && time.Now().Before(deadline); {
		}
		if got := stateOf(); got != "T" {
			t.Errorf("the rank is in state %q, want T", got)
		}
		r.Suspended <- struct{}{}
		r.Signals <- syscall.SIGUSR1
	}()
	if result, err := r.Do(t); err != nil || result.Code != 0 {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.Report())
	}
}

func TestFullDiskIsReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	r := launchtest.NewRun(1, `echo hello; exec sleep 600`, "a")
	r.Stdout = full
	if result, err := r.Do(t); err != nil || result.Code != 125 || !strings.HasPrefix(r.Report(), "standard output: ") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.Report())
	}
}

func TestTimeout(t *testing.T) {
	r := launchtest.NewRun(1, `exec sleep 600`, "a")
	r.Req.TimeLimits.Run = 200 * time.Millisecond
	result, err := r.Do(t)
	if err != nil || result.Code != 124 || !strings.Contains(r.Report(), "longer than -timeout 200ms") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.Report())
	}
}

func TestNothingStartsWhereOneNodeRefuses(t *testing.T) {
	r := launchtest.NewRun(2, `echo started`, "a", "b")
	r.Req.Apps = []job.App{r.Req.Apps[0], {N: 1, Argv: []string{"no-such-program"}, Dir: "/"}}
	r.Req.Apps[0].N = 1
	_, err := r.Do(t)
	if err == nil || !strings.Contains(err.Error(), "b: program no-such-program: not found in PATH") || r.Out.String() != "" {
		t.Errorf("error %v, output %q", err, r.Out.String())
	}
}

func TestEqualRefusalsAreOneLine(t *testing.T) {
	r := launchtest.NewRun(3, "", "a", "b", "c")
	r.Req.Apps[0] = job.App{N: 3, Argv: []string{"no-such-program"}, Dir: "/"}
	if _, err := r.Do(t); err == nil || err.Error() != "a,b,c: program no-such-program: not found in PATH" {
		t.Errorf("error %v", err)
	}
}

// A reader that pauses at the end of a job loses nothing (IO-10).
func TestASlowReaderLosesNothing(t *testing.T) {
	terminal := launchtest.NewStuckWriter()
	r := launchtest.NewRun(1, `seq 1 20000; seq 1 20000 >&2; echo ready >&2`, "a")
	r.Stdout = terminal
	ready := r.Err.Shows("ready")
	go func() {
		<-ready
		time.AfterFunc(3*time.Second, func() { close(terminal.Release) })
	}()
	result, err := r.Do(t)
	if err != nil || result.Code != 0 || terminal.Written.Load() != 108894 || len(r.Err.String()) != 108894+6 {
		t.Errorf("code %d, %v, %d and %d bytes", result.Code, err, terminal.Written.Load(), len(r.Err.String()))
	}
}

func TestAHostThatCannotBeReachedFailsTheJob(t *testing.T) {
	r := launchtest.NewRun(2, `echo started`, "a", "nowhere")
	if _, err := r.Do(t); err == nil || err.Error() != "nowhere: no such host" || r.Out.String() != "" {
		t.Errorf("error %v, output %q", err, r.Out.String())
	}
	r = launchtest.NewRun(1, `echo started`, "a", "nowhere")
	r.Req.SkipUnreachable = true
	if _, err := r.Do(t); err != nil || r.Out.String() != "started\n" || !strings.Contains(r.Err.String(), "nowhere: no such host; skipped") {
		t.Errorf("error %v, output %q, stderr %q", err, r.Out.String(), r.Err.String())
	}
}

func TestTooManyRanksAreRefused(t *testing.T) {
	r := launchtest.NewRun(3, `echo started`, "a", "b")
	if _, err := r.Do(t); err == nil || !strings.Contains(err.Error(), "3 ranks do not fit") || r.Out.String() != "" {
		t.Errorf("error %v, output %q", err, r.Out.String())
	}
}

func TestScriptsWithoutInterpreterAndBrokenPrograms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(dir+"/"+name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "echo plain $1\n", 0o755)
	write("binary", "\x7fELF\x00\x01junk", 0o755)
	write("noexec", "#!/bin/sh\n", 0o644)
	write("nointerp", "#!/no/such/interpreter\n", 0o755)
	tests := []struct {
		argv []string
		code int
		text string
	}{
		{[]string{"./plain", "a b"}, 0, "plain a b\n"},
		{[]string{"./binary"}, 126, "not a program for this machine"},
		{[]string{"./noexec"}, 126, "permission denied; make the program executable: chmod +x ./noexec"},
		{[]string{"./nointerp"}, 126, "its interpreter or loader is missing"},
		{[]string{"./nothing"}, 127, "program ./nothing: no such file or directory"},
		{[]string{"plain"}, 127, "did you mean ./plain?"},
	}
	for _, test := range tests {
		r := launchtest.NewRun(1, "", "a")
		r.Req.Apps[0] = job.App{N: 1, Argv: test.argv, Dir: dir}
		result, err := r.Do(t)
		text, code := r.Out.String()+r.Report(), result.Code
		if start := (*usererr.Error)(nil); errors.As(err, &start) {
			text, code = err.Error()+"; "+start.Remedy, start.Code
		}
		if code != test.code || !strings.Contains(text, test.text) {
			t.Errorf("%v: code %d, %q; want %d, %q", test.argv, code, text, test.code, test.text)
		}
	}
}
