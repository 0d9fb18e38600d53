//go:build linux

package helper

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
	"remshell/wire"
)

// numbers returns the numbers that a rank has printed, each after a word.
func (k *testHelper) numbers(rank int, word string) (numbers []int) {
	for line := range strings.Lines(k.out[rank]) {
		if n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, word))); err == nil && strings.HasPrefix(line, word) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// awaitStates waits until each process is in one of some states.
func awaitStates(t *testing.T, states string, pids ...int) {
	t.Helper()
	for end := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		odd := ""
		for _, pid := range pids {
			if look, _ := proc.ReadInfo(pid); !strings.ContainsRune(states, rune(look.State)) {
				odd = fmt.Sprintf("process %d is in state %c, not in one of %s", pid, look.State, states)
			}
		}
		if odd == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(odd)
		}
	}
}

// A hold stops each rank and its processes, also those in sessions of their own, and ranks that are started later.
// They go on when the last hold is removed.
func TestHolds(t *testing.T) {
	k := newTestHelper(t)
	const busy = `setsid sh -c 'echo child $$; while :; do :; done' & echo rank $$; while :; do :; done`
	k.start(busy)
	k.awaitOutput(0, "child")
	k.awaitOutput(0, "rank")
	pids := append(k.numbers(0, "rank "), k.numbers(0, "child ")...)
	k.conn.Send(&wire.Hold{Why: job.HoldRequested, On: true})
	awaitStates(t, "T", pids...)

	k.conn.Send(&wire.Prepare{Job: "test", Group: wire.Group{Name: "later", First: 1, Size: 1, NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1},
		Apps: []job.App{{Argv: []string{"/bin/sh", "-c", "while :; do :; done"}, Dir: "/"}}, Ranks: []job.RankPlan{{RankResources: new(job.RankResources)}}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1}})
	receive[*wire.Prepared](k)
	k.conn.Send(&wire.Start{Group: "later"})
	started := receive[*wire.Started](k)
	pids = append(pids, started.PID)
	awaitStates(t, "T", pids...)

	k.conn.Send(&wire.Hold{Why: job.HoldLauncherStopped, On: true})
	k.conn.Send(&wire.Hold{Why: job.HoldRequested})
	k.conn.Send(&wire.Signal{Number: int(unix.SIGCONT)})
	k.conn.Send(&wire.ReadMarks{})
	receive[*wire.MarksRead](k) // so all messages before were handled
	awaitStates(t, "T", pids...)
	k.conn.Send(&wire.Hold{Why: job.HoldLauncherStopped})
	awaitStates(t, "RS", pids...)
	k.conn.Send(&wire.EndJob{Grace: 0})
	receive[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Error(err)
	}
}

// When all ranks have ended while they were stopped, and the hold is removed, ranks that are started next are not stopped. The check
// of the earlier stop, which is due after a second, stopped them for good.
func TestRanksAfterAHoldOfEndedOnes(t *testing.T) {
	k := newTestHelper(t)
	k.start("echo rank $$; while :; do :; done")
	k.awaitOutput(0, "rank")
	pid := k.numbers(0, "rank ")[0]
	k.conn.Send(&wire.Hold{Why: job.HoldRequested, On: true})
	awaitStates(t, "T", pid)
	unix.Kill(pid, unix.SIGKILL)
	receive[*wire.Exited](k)
	k.conn.Send(&wire.Hold{Why: job.HoldRequested})
	k.conn.Send(&wire.Prepare{Job: "test", Group: wire.Group{Name: "later", First: 1, Size: 1, NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1},
		Apps: []job.App{{Argv: []string{"/bin/sh", "-c", "while :; do :; done"}, Dir: "/"}}, Ranks: []job.RankPlan{{RankResources: new(job.RankResources)}}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1}})
	receive[*wire.Prepared](k)
	k.conn.Send(&wire.Start{Group: "later"})
	later := receive[*wire.Started](k).PID
	for end := time.Now().Add(stopTimeout + 500*time.Millisecond); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if look, _ := proc.ReadInfo(later); look.State == 'T' {
			t.Fatal("the later rank is stopped, though there is no hold")
		}
	}
	k.conn.Send(&wire.EndJob{Grace: 0})
	receive[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Error(err)
	}
}

// Processes that cannot be stopped are reported once, and nothing waits for them: one that waits in the kernel for a
// child (vfork), and one that has become another user's.
func TestAProcessThatCannotBeStopped(t *testing.T) {
	const vforks = `exec perl -e '$| = 1; print "rank $$\n"; if (syscall($ARGV[0], 0x4011, 0, 0, 0, 0) == 0) { sleep 600 }' `
	k := newTestHelper(t)
	k.start(vforks+strconv.Itoa(unix.SYS_CLONE), `echo rank $$; while :; do :; done`)
	k.awaitOutput(0, "rank")
	k.awaitOutput(1, "rank")
	waits, spins := k.numbers(0, "rank ")[0], k.numbers(1, "rank ")[0]
	awaitStates(t, "D", waits)
	for range 2 {
		k.conn.Send(&wire.Hold{Why: job.HoldRequested, On: true})
		awaitStates(t, "T", spins)
		want := fmt.Sprintf("cannot stop processes of the job: process %d of rank 0 sleeps in the kernel (state D)", waits)
		got := receive[*wire.Log](k)
		for !strings.Contains(got.Text, "cannot stop processes") {
			got = receive[*wire.Log](k)
		}
		if got.Text != want || !got.Warning {
			t.Errorf("got %q, want %q", got.Text, want)
		}
		k.conn.Send(&wire.Hold{Why: job.HoldRequested})
		awaitStates(t, "RS", spins)
	}
	k.conn.Send(&wire.EndJob{Grace: 0})
	receive[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Error(err)
	}
}

// unstoppable names the processes that never stop.
func TestUnstoppable(t *testing.T) {
	own := os.Getpid()
	for _, test := range []struct {
		look proc.Info
		want string
	}{
		{proc.Info{PID: own, State: 'T'}, ""}, {proc.Info{PID: own, State: 't'}, ""}, {proc.Info{PID: own, State: 'Z'}, ""},
		{proc.Info{PID: own, State: 'R'}, ""}, {proc.Info{PID: own, State: 'S'}, ""},
		{proc.Info{PID: own, State: 'D'}, "sleeps in the kernel (state D)"},
	} {
		if got := unstoppable(test.look); got != test.want {
			t.Errorf("in state %c: %q, want %q", test.look.State, got, test.want)
		}
	}
	told := make(chan string)
	go func() {
		runtime.LockOSThread() // and never unlock it, so that no goroutine runs on this thread again
		unix.RawSyscall(unix.SYS_SETRESUID, 54321, 54321, 54321)
		told <- unstoppable(proc.Info{PID: os.Getppid(), State: 'S'}) + "; " + unstoppable(proc.Info{PID: os.Getppid(), State: 'T'})
	}()
	if got := <-told; os.Geteuid() == 0 && got != "belongs to another user; " {
		t.Errorf("a process of another user: %q", got)
	}
}

// A held job is ended like any other: its ranks are continued, and get SIGTERM.
func TestEndOfAHeldJob(t *testing.T) {
	const script = `trap 'exit 9' TERM; echo rank $$; while :; do :; done`
	end := map[string]func(k *testHelper){
		"mpiexec ends it": func(k *testHelper) { k.conn.Send(&wire.EndJob{Grace: testTimeout}) },
		"mpiexec is gone": func(k *testHelper) { k.conn.Close() },
	}
	for name, end := range end {
		t.Run(name, func(t *testing.T) {
			k := newTestHelper(t)
			k.prepareAs(func(m *wire.Prepare) { m.Supervision.Grace = testTimeout }, script)
			k.conn.Send(&wire.Start{})
			k.awaitOutput(0, "rank")
			pid := k.numbers(0, "rank ")
			k.conn.Send(&wire.Hold{Why: job.HoldRequested, On: true})
			awaitStates(t, "T", pid...)
			if end(k); name == "mpiexec ends it" {
				if e := receive[*wire.Exited](k).Exit; e.Code != 9 {
					t.Errorf("it has ended so: %+v", e)
				}
				receive[*wire.Drained](k)
				k.conn.Send(&wire.Bye{})
			}
			k.endJob()
		})
	}
}
