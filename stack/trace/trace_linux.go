/*
Package trace stops a process for a moment and copies what package stack needs from it: for each thread, the
registers, the stack and the calls of Python functions. It also opens the ELF files that the process executes.

	Capture:   8 threads at a time: PTRACE_SEIZE, PTRACE_INTERRUPT
	           each stopped thread: copy its registers, 128 KiB of its stack and its Python frames, PTRACE_DETACH
	           the tracing thread ends, and the kernel detaches the others

The tracing thread is an operating system thread of its own, and it always ends. So the process continues even if one of
its threads does not react to the interrupt, or if the helper is killed. Only a process that SIGSTOP had stopped before
remains stopped. A signal that arrives during the trace is delivered.

Tracing may interrupt system calls of the process. Calls that are never restarted after a stop, such as
epoll_wait(2), then return EINTR (signal(7)).
*/
package trace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"remshell/stack"
	"remshell/stack/python"
)

const (
	// windowBytes is the number of bytes that are copied from the stack of each thread while the thread is stopped.
	// After the first fullWindows threads, it is only laterWindowBytes. Further bytes are read when the thread runs
	// again.
	windowBytes      = 128 << 10
	laterWindowBytes = 16 << 10
	fullWindows      = 64
	// maxStanding is the maximum number of threads of a process that Capture keeps stopped at the same time, so that no
	// thread is stopped for long. patience is the maximum time for which Capture waits for one of the interrupted
	// threads to stop. If none does, it interrupts up to maxStanding further threads. A thread in an uninterruptible
	// sleep takes longer to stop.
	maxStanding = 8
	patience    = 20 * time.Millisecond
	// standTime is the maximum time for which Capture waits until all threads have stopped. On a busy host, a thread
	// may get no CPU for some time. Threads that stop earlier are released earlier.
	standTime = 1500 * time.Millisecond
	// firstPause and maxPause are the shortest and the longest time until Capture checks again which threads
	// have stopped.
	firstPause = 20 * time.Microsecond
	maxPause   = time.Millisecond
)

// Host is the architecture of this machine. If knownHost is false, the architecture is not supported, and Capture
// returns an error.
var Host, knownHost = hostArch()

func hostArch() (a stack.Arch, known bool) {
	a, known = map[string]stack.Arch{"amd64": stack.AMD64, "arm64": stack.ARM64}[runtime.GOARCH]
	return a, known
}

// A Thread contains the state that a thread had when it was stopped.
type Thread struct {
	TID       int
	Name      string // as the program has named it; comm(5)
	State     byte   // before the stop; a letter of proc_pid_stat(5)
	Signal    int    // signal that has stopped its process; 0: it is not stopped, or was not traced
	WaitIn    string // function of the kernel in which it sleeps; empty: none, or unknown
	Registers stack.Registers
	Read      bool // Registers are set. If false, it could not be stopped, and only the kernel's information is known
	Calls     []python.Call
	window    []byte
	windowAt  uint64
	running   time.Time // when it was last seen not to be stopped
}

// A Process contains the state that Capture has copied from a process.
type Process struct {
	PID     int
	Threads []Thread      // the first is the main thread
	Stopped time.Duration // longest time that a thread can have been stopped
	python  *python.Runtime
}

// An Error says why a process could not be traced.
type Error struct {
	Tracer int // process ID of the process that already traces it; 0: none
	Err    error
}

func (e *Error) Error() string {
	if e.Tracer != 0 {
		return fmt.Sprintf("process %d %s", e.Tracer, stack.TracedNote)
	}
	if errors.Is(e.Err, unix.EPERM) || errors.Is(e.Err, unix.EACCES) {
		return "ptrace is not permitted here: " + e.Err.Error()
	}
	return e.Err.Error()
}

// Capture stops a process, copies the state of its threads, and lets them run again. py is the Python interpreter
// of the process, or nil. If Capture returns an error, the Process contains what the kernel reports without ptrace.
func Capture(pid int, py *python.Runtime) (Process, error) {
	p := Process{PID: pid, python: py}
	if tracer, _ := strconv.Atoi(statusField(pid, pid, "TracerPid")); tracer != 0 {
		p.readThreads()
		return p, &Error{Tracer: tracer}
	}
	if !knownHost {
		p.readThreads()
		return p, &Error{Err: errors.New("mpiexec cannot read stacks on " + runtime.GOARCH)}
	}
	failed := make(chan error, 1)
	go p.onThread(failed)
	err := <-failed
	for i := range p.Threads {
		p.readBlocked(&p.Threads[i])
	}
	return p, err
}

// Describe returns what the kernel reports about the threads of a process. It does not stop the process.
func Describe(pid int) Process {
	p := Process{PID: pid}
	p.readThreads()
	return p
}

// onThread captures the process on an operating system thread that ends afterwards, and sends the error or nil to
// failed. It does not use the first thread of this program, because that thread does not end with its goroutine.
func (p *Process) onThread(failed chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		done := make(chan error)
		go p.onThread(done)
		err := <-done
		runtime.UnlockOSThread()
		failed <- err
		return
	}
	t := tracer{process: p}
	failed <- t.capture()
	// The goroutine ends without UnlockOSThread: the thread ends, and the kernel detaches what it still traces.
}

// A tracer traces the threads of one process. It runs on one operating system thread.
type tracer struct {
	process *Process
	waiting []*Thread // interrupted, and not copied yet
	copied  int
}

// capture interrupts several threads at a time, copies the state of each thread that has stopped, and
// releases the thread. A thread in an uninterruptible sleep stops only when the sleep ends.
func (t *tracer) capture() error {
	p := t.process
	p.readThreads()
	if len(p.Threads) == 0 {
		return &Error{Err: unix.ESRCH}
	}
	next, most := 0, maxStanding
	deadline, pause, progress := time.Now().Add(standTime), firstPause, time.Now()
	for {
		for ; next < len(p.Threads) && len(t.waiting) < most; next++ {
			th := &p.Threads[next]
			if err := unix.PtraceSeize(th.TID); err == nil {
				t.waiting = append(t.waiting, th)
				th.running = time.Now()
				unix.PtraceInterrupt(th.TID)
			} else if next == 0 {
				return &Error{Err: err}
			}
		}
		before, now := len(t.waiting), time.Now()
		if t.waiting = slices.DeleteFunc(t.waiting, t.read); len(t.waiting) == 0 && next == len(p.Threads) || now.After(deadline) {
			return nil
		}
		if len(t.waiting) < before {
			pause, progress = firstPause, now
			continue
		}
		if now.Sub(progress) > patience {
			most, progress = most+maxStanding, now
		}
		short := unix.NsecToTimespec(int64(pause))
		unix.Nanosleep(&short, nil) // time.Sleep may take 1 ms, since the runtime waits in epoll_wait
		pause = min(2*pause, maxPause)
	}
}

// read copies the state of a thread and releases the thread. It returns false if the thread has not stopped yet.
func (t *tracer) read(th *Thread) bool {
	now := time.Now()
	words, err := registersOf(th.TID)
	if err != nil {
		th.running = now
		return false
	}
	if th.Registers, th.Read = stack.FromUser(Host, words); th.Read {
		th.windowAt = th.Registers.SP(Host)
		size := windowBytes
		if t.copied++; t.copied > fullWindows {
			size = laterWindowBytes
		}
		th.window = slices.Clip(slices.Clone(readMemory(t.process.PID, th.windowAt, size))) // often the stack ends long before
		t.process.readCalls(th)
	}
	pending := 0
	pending, th.Signal = signalsOf(th.TID)
	ptrace(unix.PTRACE_DETACH, th.TID, 0, uintptr(pending))
	t.process.Stopped = max(t.process.Stopped, time.Since(th.running))
	return true
}

// signalsOf returns the signal that a traced thread was about to receive, and the signal that has stopped its process.
// They are 0 if there is none.
func signalsOf(tid int) (pending, stopped int) {
	var info unix.Siginfo
	if ptrace(unix.PTRACE_GETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&info))) != nil {
		return 0, 0
	}
	switch {
	case info.Code>>8 != unix.PTRACE_EVENT_STOP:
		return int(info.Signo), 0
	case unix.Signal(info.Signo) == unix.SIGTRAP: // by our interrupt
		return 0, 0
	}
	return 0, int(info.Signo) // by a stop of its group
}

func ptrace(request, tid int, address, data uintptr) error {
	if _, _, e := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, data, 0, 0); e != 0 {
		return e
	}
	return nil
}

// registersOf returns the registers of a stopped thread.
func registersOf(tid int) ([]uint64, error) {
	const ntPRStatus = 1 // elf.h
	buf := make([]uint64, 40)
	vec := unix.Iovec{Base: (*byte)(unsafe.Pointer(&buf[0]))}
	vec.SetLen(8 * len(buf))
	if err := ptrace(unix.PTRACE_GETREGSET, tid, ntPRStatus, uintptr(unsafe.Pointer(&vec))); err != nil {
		return nil, err
	}
	return buf[:vec.Len/8], nil
}

// readMemory returns up to n bytes of a process's memory. It stops at the first address that is not mapped.
func readMemory(pid int, address uint64, n int) []byte {
	if n <= 0 {
		return nil
	}
	buf := make([]byte, n)
	// The kernel stops at the first page that is not mapped, if each page is a part of its own.
	var remote []unix.RemoteIovec
	for at, left := address, n; left > 0; {
		size := min(left, 4096-int(at%4096))
		remote = append(remote, unix.RemoteIovec{Base: uintptr(at), Len: size})
		at, left = at+uint64(size), left-size
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(n)
	got, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err != nil {
		return nil
	}
	return buf[:got]
}

// MemoryOf returns a function that reads the current memory of a process.
func MemoryOf(pid int) stack.Memory {
	return func(address uint64, to []byte) bool { return copy(to, readMemory(pid, address, len(to))) == len(to) }
}

// Memory returns a function that reads the memory of a thread. It uses the copy of the thread's stack, and for
// other addresses the current memory of the process.
func (p *Process) Memory(th *Thread) stack.Memory {
	present := MemoryOf(p.PID)
	return func(address uint64, to []byte) bool {
		if off := address - th.windowAt; address >= th.windowAt && off < uint64(len(th.window)) && uint64(len(th.window))-off >= uint64(len(to)) {
			copy(to, th.window[off:])
			return true
		}
		return present(address, to)
	}
}

// readBlocked sets the stack pointer and the program counter of a thread that could not be stopped, as the kernel
// reports them (proc_pid_syscall(5)). Other registers stay unknown. Then it copies the stack and the Python calls of
// the thread.
func (p *Process) readBlocked(th *Thread) {
	if th.Read {
		return
	}
	text, _ := readBounded(fmt.Sprintf("/proc/%d/task/%d/syscall", p.PID, th.TID), 1<<10)
	fields := strings.Fields(string(text))
	if len(fields) < 3 {
		return // it runs, or this is not permitted
	}
	sp, err1 := strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-2], "0x"), 16, 64)
	pc, err2 := strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
	if err1 != nil || err2 != nil || pc == 0 {
		return
	}
	th.Registers, th.Read = stack.AtCall(Host, sp, pc), true
	th.windowAt, th.window = sp, readMemory(p.PID, sp, windowBytes)
	p.readCalls(th)
}

// readCalls reads the Python calls of a thread.
func (p *Process) readCalls(th *Thread) {
	if p.python == nil {
		return
	}
	tid := uint64(0)
	if th.Registers.ThreadPointer == 0 { // the last ID is that in the namespace of the process
		ids := strings.Fields(statusField(p.PID, th.TID, "NSpid"))
		if len(ids) > 0 {
			tid, _ = strconv.ParseUint(ids[len(ids)-1], 10, 64)
		}
	}
	th.Calls = p.python.Calls(pagesOf(p.PID), th.Registers.ThreadPointer, tid)
}

// pagesOf returns a function that reads the memory of a process. It reads each page only once, and at most 4096 pages.
func pagesOf(pid int) stack.Memory {
	const size = 4096
	pages := make(map[uint64][]byte)
	return func(address uint64, to []byte) bool {
		for len(to) > 0 {
			at := address % size
			page, known := pages[address-at]
			if !known && len(pages) < 4096 {
				page = readMemory(pid, address-at, size)
				pages[address-at] = page
			}
			if at >= uint64(len(page)) {
				return false
			}
			n := copy(to, page[at:])
			to, address = to[n:], address+uint64(n)
		}
		return true
	}
}

// readThreads lists the threads of the process and reads what the kernel reports about each.
func (p *Process) readThreads() {
	dir := fmt.Sprintf("/proc/%d/task", p.PID)
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(stack.MaxThreads + 1)
	tids := []int{p.PID}
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil && tid != p.PID {
			tids = append(tids, tid)
		}
	}
	slices.Sort(tids[1:])
	for _, tid := range tids[:min(len(tids), stack.MaxThreads)] {
		th := Thread{TID: tid}
		stat, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(tid), "stat"))
		if err != nil {
			continue
		}
		open, closed := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if open < 0 || closed < open || len(stat) < closed+3 {
			continue
		}
		th.Name, th.State = string(stat[open+1:closed]), stat[closed+2]
		wait, _ := os.ReadFile(filepath.Join(dir, strconv.Itoa(tid), "wchan"))
		if text, _, _ := strings.Cut(string(wait), "."); text != "0" {
			th.WaitIn = text
		}
		p.Threads = append(p.Threads, th)
	}
}

func statusField(pid, tid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
