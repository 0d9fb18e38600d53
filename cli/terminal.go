package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"remshell/launch"
)

// foregroundPoll is how often a job in the background looks whether it was brought to
// the foreground. No signal tells.
const foregroundPoll = 200 * time.Millisecond

// foreground keeps from reading a terminal while we are in its background: the kernel
// would stop us with SIGTTIN, and `mpiexec ... &` would never end (IO-5).
//
// Nor may a read wait that we have begun in the foreground: after ^Z and bg the kernel
// begins it again, in the background. So we wait for something to read, and then read.
func foreground(in io.Reader) io.Reader {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return in
	}
	return terminal{file}
}

// A terminal is read in the foreground only.
type terminal struct{ *os.File }

func (t terminal) Read(p []byte) (int, error) {
	for {
		t.await()
		if t.ours() {
			return t.File.Read(p)
		}
		time.Sleep(foregroundPoll)
	}
}

// await waits until there is something to read, or the end of it.
func (t terminal) await() {
	fds := []unix.PollFd{{Fd: int32(t.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return
		}
	}
}

// ours reports whether our process group has the terminal. If that cannot be told,
// the terminal is not our controlling one, and reading it stops nobody.
func (t terminal) ours() bool {
	group, err := unix.IoctlGetInt(int(t.Fd()), unix.TIOCGPGRP)
	return err != nil || group == syscall.Getpgrp()
}

// lendTerminal gives our terminal, if we have it, to the ranks with pseudo-terminals:
// every key is theirs, ^C too. Only what becomes of newlines on their way out stays, for
// our own lines.
func lendTerminal(sys System, env *launch.Env) (restore func(), err error) {
	file, ok := sys.In.(*os.File)
	if !ok || env.In == nil || !term.IsTerminal(int(file.Fd())) || !(terminal{file}).ours() {
		return func() {}, nil
	}
	fd := int(file.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("--pty: %w", err)
	}
	keepNewlines(fd)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	env.Resized = resized
	env.Size = func() (rows, cols int) {
		cols, rows, _ = term.GetSize(fd)
		return rows, cols
	}
	if sys.Lent != nil {
		sys.Lent(func() {
			if (terminal{file}).ours() { // else the kernel would stop us
				term.Restore(fd, before)
			}
		})
	}
	return func() {
		signal.Stop(resized)
		term.Restore(fd, before)
	}, nil
}
