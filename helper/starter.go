//go:build linux

package helper

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// A starter starts ranks on one thread that lives as long as the session and runs
// nothing else. A parent-death signal comes when the thread that forked ends, not when
// its process does, so the thread must not be one that Go may retire; and it takes on the
// CPUs and the memory policy of each rank, which nobody else should have. Go clones no
// thread from one that is locked.
type starter chan func()

func newStarter() starter {
	s := make(starter)
	go func() {
		runtime.LockOSThread()
		for start := range s {
			start()
		}
	}()
	return s
}

// do runs f on the starter's thread and waits for it.
func (s starter) do(f func()) {
	done := make(chan struct{})
	s <- func() { f(); close(done) }
	<-done
}

// close ends the thread. No rank may be left that would hear of that.
func (s starter) close() { close(s) }

// A spawn is what one fork and exec needs.
type spawn struct {
	path  string
	argv  []string
	env   []string
	dir   string
	files [4]int // stdin, stdout, stderr and PMI_FD of the child

	death   syscall.Signal // comes when the helper dies
	session bool           // lead a session of its own, and so lose our terminal, or only a group
	// terminal: stdin is a terminal, and becomes that of a session of its own
	terminal bool
}

// run forks and execs, on the calling thread. The rank leads a session, or at least a process
// group, of its own (SIG-6) and hears when the helper dies. It uses the system call
// below os/exec, which would open a pidfd and start goroutines for each rank.
func (s *spawn) run() (pid int, err error) {
	attr := &syscall.ProcAttr{Dir: s.dir, Env: s.env, Sys: &syscall.SysProcAttr{
		Setpgid:   !s.session && !s.terminal,
		Setsid:    s.session || s.terminal,
		Setctty:   s.terminal,
		Pdeathsig: s.death,
	}}
	for _, fd := range s.files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, err = syscall.ForkExec(s.path, s.argv, attr)
	if errors.Is(err, syscall.ENOEXEC) && isText(s.path) {
		// A script without "#!" is run by the shell, as execvp(3) does.
		argv := append([]string{"/bin/sh", s.path}, s.argv[1:]...)
		pid, err = syscall.ForkExec("/bin/sh", argv, attr)
	}
	return pid, err
}

// isText guesses, as shells do, that a file without a zero byte in its first
// line is a script and not a program for another machine.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	head, _, _ = bytes.Cut(head[:n], []byte("\n"))
	return n > 0 && bytes.IndexByte(head, 0) < 0
}
