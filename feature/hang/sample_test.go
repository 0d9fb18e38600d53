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

	"remshell/proc"
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
	eventually(t, func() bool { s := readSample(ranks, true); return s.Ranks[0].Sleeps && s.Ranks[1].Sleeps })
	first := readSample(ranks, true)
	if again := readSample(ranks, true); again.Signature != first.Signature || again.User {
		t.Errorf("%+v, then %+v", first, again)
	}
	ranks[1].state++
	if other := readSample(ranks, true); other.Signature == first.Signature {
		t.Error("the PMI state does not count")
	}
	ranks[1].state--
	ranks[1].pid = 0
	if other := readSample(ranks, true); other.Signature == first.Signature {
		t.Error("the end of a rank does not count")
	}
}

// A rank that sleeps for a limited time, has a timer or waits for the user goes on by itself, in whichever system call and
// thread it waits, even after a tracer has stopped it. Other ranks do not go on by themselves.
func TestWhoGoesOn(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs " + python)
	}
	type kind int
	const (
		no     kind = iota // nothing shows that the rank goes on
		sleeps             // for a limited time
		user               // waits for the user
	)
	thread := func(work string) string {
		return "t = threading.Thread(target=lambda: " + work + "); t.start(); up(); t.join()"
	}
	for _, test := range []struct {
		code string
		mpi  bool
		want kind
	}{
		{"up(); time.sleep(1000)", false, sleeps},
		{"up(); select.select([], [], [], 1000)", false, sleeps},
		{"up(); select.poll().poll(1000000)", false, sleeps},
		{"up(); select.epoll().poll(1000)", false, sleeps},
		{"up(); threading.Event().wait(1000)", false, sleeps},
		{"up(); signal.sigtimedwait([10], 1000)", false, sleeps},
		{"a, b = socket.socketpair(); a.setsockopt(1, 20, struct.pack('ll', 1000, 0)); up(); a.recv(1)", false, sleeps}, // SO_RCVTIMEO
		{"signal.signal(signal.SIGALRM, lambda *_: 0); signal.alarm(1000); up(); signal.pause()", false, sleeps},
		{"f = ctypes.CDLL(None).timerfd_create(1, 0); ctypes.CDLL(None).timerfd_settime(f, 0, struct.pack('4q', 0, 0, 1000, 0), None); up(); os.read(f, 8)", false, sleeps},
		{"up(); subprocess.run(['sleep', '1000'])", false, sleeps},
		{"up(); select.select([fd], [], [])", false, no},
		{"p = select.poll(); p.register(fd, 1); up(); p.poll()", false, no},
		{"up(); select.epoll().poll()", false, no},
		{"up(); threading.Event().wait()", false, no},
		{"up(); os.read(fd, 1)", false, no},
		{"up(); signal.pause()", false, no},
		{"a, b = socket.socketpair(); up(); a.recv(1)", false, no},
		{"ctypes.CDLL(None).timerfd_create(1, 0); up(); os.read(fd, 1)", false, no},

		{thread("time.sleep(1000)"), true, sleeps},
		{thread("threading.Event().wait(1000)"), true, sleeps},
		{thread("select.select([], [], [], 1000)"), true, sleeps},
		{thread("select.poll().poll(60000)"), true, sleeps},
		{thread("select.poll().poll(3600000)"), true, no}, // as threads of Open MPI do
		{thread("select.poll().poll(3600000)"), false, sleeps},
		{thread("select.epoll().poll(60)"), true, no},
		{thread("select.epoll().poll(60)"), false, sleeps},
		{thread("os.read(fd, 1)"), false, no},
		{"threading.Timer(1000, lambda: 0).start(); up(); os.read(fd, 1)", true, sleeps}, // a thread may write to the pipe
		{"import asyncio; up(); asyncio.run(asyncio.to_thread(time.sleep, 1000))", true, sleeps},

		{"up(); os.read(0, 1)", false, user},
		{"up(); select.select([0], [], [])", false, user},
		{"p = select.poll(); p.register(0, 1); up(); p.poll()", false, user},
		{"p = select.epoll(); p.register(0, 1); up(); p.poll()", false, user},
		{thread("os.read(0, 1)"), false, user},
		{"up()\nwhile True: os.write(1, bytes(1 << 20))", false, user},
		{"p = select.poll(); os.set_blocking(1, False); up(); os.write(1, bytes(1 << 20)); p.register(1, 4); p.poll()", false, user},
		{"up(); subprocess.run(['cat'])", false, user},
		{"up(); subprocess.run(['cat'], stdin=fd)", false, no}, // its input is another one
	} {
		child := exec.Command(python, "-c", "import ctypes, os, select, signal, socket, struct, subprocess, threading, time\nfd, other = os.pipe(); up = lambda: os.write(2, b'up')\n"+test.code)
		_, err1 := child.StdinPipe()
		_, err2 := child.StdoutPipe() // nobody reads it
		up, err3 := child.StderrPipe()
		if err := cmp.Or(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(up, make([]byte, len("up")))
		ranks := []watchedRank{{pid: child.Process.Pid, mpi: test.mpi}}
		for _, after := range []string{"", "after a stop"} {
			var got kind
			steady := 0 // the program may not have reached its call
			for deadline := time.Now().Add(10 * time.Second); steady < 20 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
				switch s := readSample(ranks, true); {
				case s.User:
					got = user
				case s.Ranks[0].Sleeps:
					got = sleeps
				default:
					got = no
				}
				if steady++; got != test.want {
					steady = 0
				}
			}
			if steady == 0 {
				t.Errorf("%s %s: %v, want %v", test.code, after, got, test.want)
			}
			for _, p := range append(proc.ReadTree().Descendants(ranks[0].pid), proc.Info{PID: ranks[0].pid}) { // as a tracer does
				unix.Kill(p.PID, unix.SIGSTOP)
				unix.Kill(p.PID, unix.SIGCONT)
			}
		}
		for _, p := range append(proc.ReadTree().Descendants(ranks[0].pid), proc.Info{PID: ranks[0].pid}) {
			unix.Kill(p.PID, unix.SIGKILL)
		}
		child.Wait()
	}
}

// A thread that is waited for and wakes up now and then counts as awake.
func TestThreadThatWakesUp(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs " + python)
	}
	child := exec.Command(python, "-c", "import os, threading; t = threading.Thread(target=lambda: [os.read(0, 1) for _ in range(1000)]); t.start(); t.join()")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	ranks := []watchedRank{{pid: child.Process.Pid}}
	eventually(t, func() bool { return readSample(ranks, false).User }) // the thread reads
	before := readSample(ranks, false).Ranks[0].Wakeup
	input.Write([]byte("x"))
	eventually(t, func() bool { return readSample(ranks, false).Ranks[0].Wakeup > before })
}

// eventually waits until a condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
	}
}

// One sample of a node with 64 ranks. With --hang=60 there are twelve in a minute.
func BenchmarkSample(b *testing.B) {
	ranks := startSleeps(b, 64)
	began := cpuUsed()
	for b.Loop() {
		readSample(ranks, false)
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
