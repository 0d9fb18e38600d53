package trace

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/stack"
)

// program compiles a program in C, C++, Fortran or Go and returns its path. A first flag without a hyphen is the compiler. The test is
// skipped without a compiler, or if that does not know the flags.
func program(t testing.TB, source string, flags ...string) string {
	t.Helper()
	compiler, suffix := "gcc", ".c"
	if strings.Contains(source, "namespace") {
		compiler, suffix = "g++", ".cc"
	}
	if strings.Contains(source, "end program") {
		compiler, suffix = "gfortran", ".f90"
	}
	if strings.Contains(source, "package main") {
		compiler, suffix, flags = "go", ".go", slices.Concat([]string{"build"}, flags)
	}
	if len(flags) > 0 && strings.HasSuffix(flags[0], "-gcc") {
		compiler, flags = flags[0], flags[1:]
	}
	path, err := exec.LookPath(compiler)
	if err != nil {
		t.Skip("needs " + compiler)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "planted"+suffix)
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "planted")
	cmd := exec.Command(path, slices.Concat(flags, []string{"-o", out, file})...)
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GO111MODULE=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		if slices.Contains(flags, "-static") {
			t.Skipf("no static libraries: %s", text)
		}
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// start starts a program and waits until it prints a line.
func start(t testing.TB, program string, args ...string) int {
	t.Helper()
	cmd := exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd.Process.Pid
}

// namesOf returns the functions of each thread, innermost first, with files and lines where these are known.
func namesOf(t *testing.T, pid int) (threads [][]string, p Process) {
	t.Helper()
	p, err := Capture(pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	var images Images
	defer images.Close()
	mappings, err := images.Mappings(pid)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Threads {
		var names []string
		for _, a := range stack.Unwind(Host, p.Threads[i].Registers, p.Memory(&p.Threads[i]), mappings) {
			if a.Mapping == nil || a.Mapping.Image == nil {
				names = append(names, "?")
				continue
			}
			for _, l := range a.Mapping.Image.Symbolize([]uint64{a.Address}, time.Now().Add(time.Minute))[a.Address] {
				name := l.Function
				if l.File != "" {
					name += fmt.Sprintf(" %s:%d", l.File, l.Line)
				}
				names = append(names, name)
			}
		}
		threads = append(threads, names)
	}
	return threads, p
}

const inC = `#include <unistd.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
volatile int sink;
__attribute__((noinline)) void innermost(int n) { for (;;) sink += n; }
static inline __attribute__((always_inline)) void between(int n) { innermost(n + 1); sink++; }
__attribute__((noinline)) void outermost(int n) {
	between(n + 2);
	sink++;
}
void handler(int s) { outermost(s); }
int main(int argc, char **argv) {
	puts("ready"); fflush(stdout);
	if (!strcmp(argv[1], "spin")) outermost(argc);
	if (!strcmp(argv[1], "sleep")) for (;;) sleep(1000);
	if (!strcmp(argv[1], "signal")) { signal(SIGALRM, handler); alarm(1); for (;;) pause(); }
	if (!strcmp(argv[1], "vfork")) { if (!vfork()) for (;;) sleep(1000); }
	if (!strcmp(argv[1], "read")) { setpgid(0, 0); raise(SIGTTIN); for (;;) sink++; }
	return 0;
}
`

const inCxx = `#include <cstdio>
namespace solver { volatile int sink;
template <class T> struct Mesh { __attribute__((noinline)) void relax(T x) { for (;;) sink = sink + 1; } };
}
int main() { std::puts("ready"); std::fflush(stdout); solver::Mesh<double> m; m.relax(1.0); return 0; }
`

const inlinedCxx = `#include <cstdio>
namespace solver { volatile int sink;
template <class T> struct Mesh {
	void relax(T x) { for (;;) sink = sink + 1; }
	void smooth(T x) { relax(x + 1); }
};
__attribute__((noinline)) void solve() { Mesh<double> m; m.smooth(1.0); }
}
int main() { std::puts("ready"); std::fflush(stdout); solver::solve(); return 0; }
`

const inGo = `package main
import ("fmt"; "os")
var sink int
//go:noinline
func innermost(n int) { for { sink += n } }
//go:noinline
func outermost(n int) { innermost(n + 1); sink++ }
func main() { fmt.Println("ready"); outermost(len(os.Args)) }
`

const inFortran = `module waves
contains
  subroutine advance(n)
    integer, volatile :: n
    do
      n = n + 1
    end do
  end subroutine
end module
program planted
  use waves
  integer, volatile :: n
  print '(a)', 'ready'
  call flush(6)
  call advance(n)
end program
`

// The stack of a program is found however it was compiled: with CFI alone, with frame pointers alone, position
// independent or not, static, with inlined functions, in C++ and Fortran.
func TestStacksOfPrograms(t *testing.T) {
	for _, test := range []struct {
		name   string
		source string
		flags  []string
		want   string // subsequent functions
	}{
		{"debug information", inC, []string{"-g", "-O2"}, "innermost planted.c:6, between planted.c:7, outermost planted.c:9, main planted.c:15"},
		{"compressed debug information", inC, []string{"-g", "-O2", "-gz"}, "innermost planted.c:6, between planted.c:7, outermost planted.c:9, main planted.c:15"},
		{"DWARF 4", inC, []string{"-gdwarf-4", "-O2"}, "innermost planted.c:6, between planted.c:7, outermost planted.c:9, main planted.c:15"},
		{"no frame pointers", inC, []string{"-O2", "-fomit-frame-pointer"}, "innermost, outermost, main"},
		{"frame pointers alone", inC, []string{"-O0", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,--no-eh-frame-hdr"}, "innermost, outermost, main"},
		{".debug_frame alone", inC, []string{"-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}, "innermost planted.c:6, between planted.c:7, outermost planted.c:9, main planted.c:15"},
		{"not position independent", inC, []string{"-O2", "-no-pie"}, "innermost, outermost, main"},
		{"static", inC, []string{"-O2", "-static"}, "innermost, outermost, main"},
		{"exported names alone", inC, []string{"-O2", "-rdynamic", "-s"}, "innermost, outermost, main"},
		{"C++", inCxx, []string{"-O2"}, "solver::Mesh<double>::relax, main"},
		{"C++ with inlined functions", inlinedCxx, []string{"-O2", "-g"}, "solver::Mesh<double>::relax planted.cc:4, solver::Mesh<double>::smooth planted.cc:5, solver::solve planted.cc:7, main planted.cc:9"},
		{"position independent and static", inC, []string{"-O2", "-static-pie"}, "innermost, outermost, main"},
		{"musl", inC, []string{"musl-gcc", "-O2"}, "innermost, outermost, main"},
		{"musl, static", inC, []string{"musl-gcc", "-O2", "-static"}, "innermost, outermost, main"},
		{"Go", inGo, nil, "main.innermost planted.go:, main.outermost planted.go:7, main.main planted.go:8, runtime.main"},
		{"Fortran", inFortran, []string{"-g", "-O0"}, "advance planted.f90:6, MAIN__ planted.f90:15, main planted.f90:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pid := start(t, program(t, test.source, test.flags...), "spin")
			var got string
			for range 1000 { // it may still return from puts
				threads, _ := namesOf(t, pid)
				for _, names := range threads { // Go's main function may be on any
					if got = strings.Join(names, ", "); inOrder(got, test.want) {
						return
					}
				}
			}
			t.Errorf("%s, want %s", got, test.want)
		})
	}
}

// inOrder reports whether a text has the parts of another one in their order.
func inOrder(text, parts string) bool {
	for part := range strings.SplitSeq(parts, ", ") {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// The C library of musl has no call frame information. A process that waits in it is read nevertheless.
func TestStackInMusl(t *testing.T) {
	for _, flags := range [][]string{{"-O2"}, {"-O0", "-g"}, {"-O2", "-static"}, {"-O2", "-s"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			want := "sleep, main"
			if slices.Contains(flags, "-s") {
				want = "sleep, 0x"
			}
			pid := start(t, program(t, inC, slices.Concat([]string{"musl-gcc"}, flags)...), "sleep")
			var got string
			for range 1000 { // it may still be in puts
				threads, _ := namesOf(t, pid)
				if got = strings.Join(threads[0], ", "); inOrder(got, want) {
					return
				}
			}
			t.Errorf("%s, want %s", got, want)
		})
	}
}

// A stripped program has the starts of its functions instead of names.
func TestStackOfAStrippedProgram(t *testing.T) {
	pid := start(t, program(t, inC, "-O2", "-s"), "spin")
	threads, _ := namesOf(t, pid)
	if got := strings.Join(threads[0], ", "); !inOrder(got, "0x, 0x, 0x, __libc_start_main") {
		t.Error(got)
	}
}

// Frames below a signal handler are those of the interrupted function.
func TestStackThroughASignal(t *testing.T) {
	pid := start(t, program(t, inC, "-O2", "-g"), "signal")
	for {
		threads, _ := namesOf(t, pid)
		if got := strings.Join(threads[0], ", "); strings.Contains(got, "innermost") {
			if !inOrder(got, "innermost, outermost, handler, pause, main") {
				t.Error(got)
			}
			return
		}
	}
}

// A sleeping process sleeps on, and one that waits for its vfork child is read without stopping it.
func TestProcessesThatWait(t *testing.T) {
	c := program(t, inC, "-O0")
	pid := start(t, c, "sleep")
	for got := ""; !inOrder(got, "sleep, main"); { // it may still be in puts
		threads, _ := namesOf(t, pid)
		got = strings.Join(threads[0], ", ")
	}
	pid = start(t, c, "vfork")
	for {
		threads, p := namesOf(t, pid)
		if p.Threads[0].State != 'D' {
			continue // it does not wait yet
		}
		if got := strings.Join(threads[0], ", "); !strings.Contains(got, "vfork") {
			t.Error(got)
		}
		break
	}
	if children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); len(children) > 0 {
		var child int
		fmt.Sscan(string(children), &child)
		unix.Kill(child, unix.SIGKILL)
	}
}

const waiting = `#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
int main(int argc, char **argv) { // counts how often a call that waits for standard input returns EINTR
	int interrupted = 0, e = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	epoll_ctl(e, EPOLL_CTL_ADD, 0, &event);
	struct timeval limit = {1000, 0};
	if (!strcmp(argv[1], "recv with a timeout")) setsockopt(0, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	puts("ready"); fflush(stdout);
	for (;; interrupted++) {
		char c;
		int got = -1;
		struct pollfd p = {.events = POLLIN};
		fd_set set; FD_ZERO(&set); FD_SET(0, &set);
		if (!strcmp(argv[1], "epoll_wait")) got = epoll_wait(e, &event, 1, -1);
		if (!strcmp(argv[1], "epoll_wait with a timeout")) got = epoll_wait(e, &event, 1, 1000000);
		if (!strcmp(argv[1], "poll")) got = poll(&p, 1, -1);
		if (!strcmp(argv[1], "poll with a timeout")) got = poll(&p, 1, 1000000);
		if (!strcmp(argv[1], "select")) got = select(1, &set, 0, 0, 0);
		if (!strcmp(argv[1], "read")) got = read(0, &c, 1);
		if (!strcmp(argv[1], "recv with a timeout")) got = recv(0, &c, 1, 0);
		if (got >= 0 || errno != EINTR) break;
	}
	printf("%d %d\n", interrupted, errno == EINTR ? 0 : errno); fflush(stdout);
	return 0;
}
`

// The calls that the guide names return EINTR if the process is read while it waits in them (signal(7)), and succeed when they are
// repeated. The kernel continues other calls.
func TestCallsThatReturnEINTR(t *testing.T) {
	path := program(t, waiting, "-O1")
	for call, interrupted := range map[string]bool{"epoll_wait": true, "epoll_wait with a timeout": true, "recv with a timeout": true,
		"poll": false, "poll with a timeout": false, "select": false, "read": false} {
		t.Run(call, func(t *testing.T) {
			ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
			defer ours.Close()
			cmd := exec.Command(path, call)
			cmd.Stdin = theirs
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			theirs.Close()
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			lines := bufio.NewReader(out)
			lines.ReadString('\n')
			for range 5 {
				for stateOf(cmd.Process.Pid) != "S" { // until it waits
					runtime.Gosched()
				}
				if p, err := Capture(cmd.Process.Pid, nil); err != nil || !p.Threads[0].Read {
					t.Fatal(err)
				}
			}
			ours.Write([]byte("x"))
			var times, failure int
			text, _ := lines.ReadString('\n')
			if n, _ := fmt.Sscan(text, &times, &failure); n != 2 || failure != 0 || (times > 0) != interrupted || times > 5 {
				t.Errorf("%q: %d times EINTR, error %d", text, times, failure)
			}
		})
	}
}

// A process that a signal has stopped is read with the signal, and stays stopped.
func TestAStoppedProcessStaysStopped(t *testing.T) {
	c := program(t, inC, "-O2")
	for how, signal := range map[string]unix.Signal{"spin": unix.SIGSTOP, "read": unix.SIGTTIN} {
		pid := start(t, c, how)
		if how == "spin" {
			unix.Kill(pid, signal)
		}
		stops := func() {
			for stateOf(pid) != "T" { // also after it was read: it returns into its stop
				runtime.Gosched()
			}
		}
		for range 5 {
			stops()
			threads, p := namesOf(t, pid)
			if got := strings.Join(threads[0], ", "); !strings.Contains(got, "main") || p.Threads[0].State != 'T' || p.Threads[0].Signal != int(signal) {
				t.Errorf("%s: %s, %c, signal %d", how, got, p.Threads[0].State, p.Threads[0].Signal)
			}
		}
		stops()
		unix.Kill(pid, unix.SIGCONT)
		for stateOf(pid) != "R" {
			runtime.Gosched()
		}
		if _, p := namesOf(t, pid); p.Threads[0].Signal != 0 {
			t.Errorf("%s: signal %d although it runs", how, p.Threads[0].Signal)
		}
	}
}

// stateOf returns the state of a process, a letter, or t if it is traced.
func stateOf(pid int) string {
	state, _, _ := strings.Cut(statusField(pid, pid, "State"), " ")
	return state
}

const threaded = `#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
volatile int sink;
void *sleeper(void *p) { for (;;) pause(); return p; }
void *blocked(void *p) { if (!vfork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); } return p; }
__attribute__((noinline)) void *work(void *p) { for (;;) sink++; return p; }
void *briefly(void *p) { return p; }
__attribute__((noinline)) void churn(void) { for (;;) { pthread_t a; if (!pthread_create(&a, 0, briefly, 0)) pthread_join(a, 0); } }
int main(int argc, char **argv) {
	pthread_t t;
	for (int i = 1; i < 32 && !strcmp(argv[1], "many"); i++) pthread_create(&t, 0, work, 0);
	for (int i = 1; i < 64 && !strcmp(argv[1], "sleepers"); i++) pthread_create(&t, 0, sleeper, 0);
	for (int i = 0; i < 20 && !strcmp(argv[1], "blocked"); i++) pthread_create(&t, 0, blocked, 0);
	if (!strcmp(argv[1], "blocked")) pthread_create(&t, 0, work, 0);
	puts("ready"); fflush(stdout);
	if (!strcmp(argv[1], "churn")) churn();
	for (;;) pause();
}
`

// All threads of a process are read. None is stopped for longer than 5 ms after it was seen to stand.
func TestThreads(t *testing.T) {
	pid := start(t, program(t, threaded, "-O1", "-pthread"), "many")
	for range 3 {
		threads, p := namesOf(t, pid)
		if len(threads) != 32 {
			t.Fatalf("%d threads", len(threads))
		}
		for i, names := range threads {
			if !p.Threads[i].Read || len(names) == 0 {
				continue // this machine is too busy, or the thread has just begun
			}
			want := "work"
			if i == 0 {
				want = "main"
			}
			if got := strings.Join(names, ", "); !strings.Contains(got, want) && !strings.Contains(got, "clone") {
				t.Errorf("thread %d: %s, %+v", i, got, p.Threads[i].State)
			}
		}
		t.Logf("a thread was stopped for at most %v", p.Stopped)
	}
}

// Threads that cannot be stopped do not keep others from being read, though only some are interrupted at a time.
func TestThreadsThatCannotBeStopped(t *testing.T) {
	pid := start(t, program(t, threaded, "-O1", "-pthread"), "blocked")
	for {
		threads, p := namesOf(t, pid)
		blocked := 0
		for _, th := range p.Threads {
			if th.State == 'D' {
				blocked++
			}
		}
		if blocked < 20 {
			continue // not all of them wait yet
		}
		if got := strings.Join(threads[21], ", "); !strings.Contains(got, "work") {
			t.Errorf("the last thread: %s", got)
		}
		return
	}
}

// Threads that begin and end meanwhile do no harm: the process goes on, and nothing of it stays traced.
func TestThreadsThatComeAndGo(t *testing.T) {
	pid := start(t, program(t, threaded, "-O1", "-pthread"), "churn")
	for range 200 {
		if _, err := Capture(pid, nil); err != nil {
			t.Fatal(err)
		}
	}
	if tracer, state := statusField(pid, pid, "TracerPid"), stateOf(pid); tracer != "0" || strings.ContainsAny(state, "ZtTX") {
		t.Errorf("tracer %s, state %s", tracer, state)
	}
}

// A process that another one traces is left alone, and a process that has ended is an error.
func TestProcessesThatCannotBeTraced(t *testing.T) {
	pid := start(t, program(t, inC, "-O2"), "spin")
	release, held := make(chan bool), make(chan error)
	go func() {
		runtime.LockOSThread()
		held <- unix.PtraceSeize(pid)
		<-release
	}()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	p, err := Capture(pid, nil)
	if want := fmt.Sprintf("process %d traces it already", unix.Getpid()); err == nil || err.Error() != want && !strings.HasSuffix(err.Error(), "traces it already") || len(p.Threads) != 1 || p.Threads[0].Read {
		t.Errorf("%v, want %s", err, want)
	}
	close(release)
	if _, err := Capture(1<<30, nil); err == nil {
		t.Error("a process that does not exist was traced")
	}
}
