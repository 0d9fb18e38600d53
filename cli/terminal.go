package cli

import (
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// foregroundPoll is how often a job in the background looks whether it was brought to
// the foreground. No signal tells.
const foregroundPoll = 200 * time.Millisecond

// foreground keeps from reading a terminal while we are in its background: the kernel
// would stop us with SIGTTIN, and `mpiexec ... &` would never end (IO-5).
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
	for !t.ours() {
		time.Sleep(foregroundPoll)
	}
	return t.File.Read(p)
}

// ours reports whether our process group has the terminal. If that cannot be told,
// the terminal is not our controlling one, and reading it stops nobody.
func (t terminal) ours() bool {
	group, err := unix.IoctlGetInt(int(t.Fd()), unix.TIOCGPGRP)
	return err != nil || group == syscall.Getpgrp()
}
