//go:build linux

package hang

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startSleeps starts n processes that sleep, as ranks.
func startSleeps(tb testing.TB, n int) (ranks []watchedRank) {
	tb.Helper()
	for i := range n {
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { child.Process.Kill(); child.Wait() })
		ranks = append(ranks, watchedRank{number: i, pid: child.Process.Pid})
	}
	return ranks
}

// The signature of a sample changes with the PMI state of a rank, and when a process ends or starts.
func TestSignature(t *testing.T) {
	ranks := startSleeps(t, 2)
	for deadline := time.Now().Add(time.Minute); !sleepsForATime(ranks[0].pid, false) || !sleepsForATime(ranks[1].pid, false); {
		if time.Now().After(deadline) {
			t.Fatal("sleep does not sleep")
		}
	}
	first := readSample(ranks)
	if again := readSample(ranks); again.Signature != first.Signature || !again.Ranks[1].Sleeps || again.User {
		t.Errorf("%+v, then %+v", first, again)
	}
	ranks[1].state++
	if other := readSample(ranks); other.Signature == first.Signature {
		t.Error("the PMI state does not count")
	}
	ranks[1].state--
	ranks[1].pid = 0
	if other := readSample(ranks); other.Signature == first.Signature {
		t.Error("the end of a rank does not count")
	}
}

// A process that waits until a time goes on by itself, in whichever system call it waits. Others do not.
func TestSleepsForATime(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs " + python)
	}
	for code, want := range map[string]bool{
		"time.sleep(1000)": true, "select.select([], [], [], 1000)": true, "select.select([0], [], [], 1000)": true, "select.poll().poll(1000000)": true,
		"select.epoll().poll(1000)": true, "threading.Event().wait(1000)": true,
		"select.select([fd], [], [])": false, "p = select.poll(); p.register(fd, 1); p.poll()": false, "select.epoll().poll()": false, "threading.Event().wait()": false, "os.read(fd, 1)": false, "signal.pause()": false,
	} {
		child := exec.Command(python, "-c", "import os, select, signal, threading, time; fd, to = os.pipe(); os.write(1, b'ready'); "+code)
		input, err1 := child.StdinPipe()
		output, err2 := child.StdoutPipe()
		if err := cmp.Or(err1, err2); err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(output, make([]byte, len("ready")))
		pid := child.Process.Pid
		waits := func(slept bool) bool {
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
				if number, _ := systemCall(pid, pid); number >= 0 && number != unix.SYS_WRITE && sleepsForATime(pid, slept) == want {
					return true
				}
			}
			return false
		}
		if !waits(false) {
			t.Errorf("%s: want %v", code, want)
		}
		unix.Kill(pid, unix.SIGSTOP) // as a tracer does
		unix.Kill(pid, unix.SIGCONT)
		if !waits(want) {
			t.Errorf("%s: after a stop: want %v", code, want)
		}
		input.Close()
		child.Process.Kill()
		child.Wait()
	}
}

// A process whose main thread waits for another thread continues if that thread sleeps for a limited time, or wakes up now and
// then. Threads that wait in an event loop do not count, because MPI libraries have such threads.
func TestThreadsThatAreWaitedFor(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs " + python)
	}
	const join = "; t = threading.Thread(target=work); t.start(); os.write(1, b'ready'); t.join()"
	for _, test := range []struct {
		code          string
		sleeps, wakes bool
	}{
		{"work = lambda: time.sleep(1000)" + join, true, true},
		{"work = lambda: threading.Event().wait(1000)" + join, true, true},
		{"work = lambda: select.select([fd], [], [], 1000)" + join, true, true},
		{"p = select.poll(); work = lambda: p.poll(60000)" + join, true, false},
		{"p = select.poll(); work = lambda: p.poll(3600000)" + join, false, false},
		{"work = lambda: select.epoll().poll(60)" + join, false, false},
		{"work = lambda: [os.read(fd, 1) for _ in range(1000)]" + join, false, true},
		{"threading.Thread(target=lambda: time.sleep(1000)).start(); os.write(1, b'ready'); os.read(fd, 1)", false, false}, // not waited for
	} {
		child := exec.Command(python, "-c", "import os, select, threading, time; fd = 0; "+test.code)
		input, err1 := child.StdinPipe()
		output, err2 := child.StdoutPipe()
		if err := cmp.Or(err1, err2); err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(output, make([]byte, len("ready")))
		pid := child.Process.Pid
		within := func(is func() bool) bool {
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
				if is() {
					return true
				}
			}
			return false
		}
		if !within(func() bool {
			number, _ := systemCall(pid, pid)
			_, sleeps := activity(pid, false)
			return number >= 0 && number != unix.SYS_WRITE && sleeps == test.sleeps
		}) {
			t.Errorf("%s: want %v", test.code, test.sleeps)
		}
		main := wakeups(pid, pid)
		if all, _ := activity(pid, false); (all > main) != test.wakes {
			t.Errorf("%s: %d of %d times another thread has gone to sleep", test.code, all-main, all)
		}
		if before, _ := activity(pid, false); test.wakes && !test.sleeps {
			input.Write([]byte("x"))
			if !within(func() bool { now, _ := activity(pid, false); return now > before }) {
				t.Errorf("%s: a thread that has received a byte does not count", test.code)
			}
		}
		input.Close()
		child.Process.Kill()
		child.Wait()
	}
}

// A process that waits for a file waits for a disk, not for a person.
func TestFilesAreNotTheUser(t *testing.T) {
	own, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if pid := os.Getpid(); !isFile(pid, uint64(own.Fd())) || isFile(pid, uint64(r.Fd())) {
		t.Error("a file and a pipe are not told apart")
	}
}

// One sample of a node with 64 ranks. With --hang=60 there are twelve in a minute.
func BenchmarkSample(b *testing.B) {
	ranks := startSleeps(b, 64)
	began := cpuUsed()
	for b.Loop() {
		readSample(ranks)
	}
	each := (cpuUsed() - began) / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds()), "cpu-µs/sample")
	b.ReportMetric(100*each.Seconds()*12/60, "%CPU")
}

// cpuUsed returns the CPU time of this process.
func cpuUsed() time.Duration {
	var used unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
