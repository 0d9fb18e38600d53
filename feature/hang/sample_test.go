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
				if number, _ := systemCall(pid); number >= 0 && number != unix.SYS_WRITE && sleepsForATime(pid, slept) == want {
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
