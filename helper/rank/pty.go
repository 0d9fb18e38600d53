//go:build linux

package rank

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// EndOfInput is the text that is written to a terminal to end its input. The first byte completes a line that was
// begun, and the second is the end of file (termios(3), VEOF).
const EndOfInput = "\x04\x04"

// openTerminal opens a pseudo-terminal for a rank. The slave end becomes the rank's three standard streams. The
// helper reads and writes the master. The helper's end of stderr is a pipe without a writer.
func (p *Pipes) openTerminal(stdin bool, size unix.Winsize) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("pseudo-terminal: %w", err)
	}
	p.ours[1] = master
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("cannot unlock the pseudo-terminal: %w", err)
	}
	slave, err := openPTYPeer(uintptr(master), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if err != nil {
		return fmt.Errorf("cannot open the pseudo-terminal: %w", err)
	}
	p.theirs[0] = slave
	if size.Row > 0 && size.Col > 0 {
		unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &size)
	}
	for i := 1; i <= 2; i++ {
		if p.theirs[i], err = unix.FcntlInt(uintptr(slave), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return err
		}
	}
	var none [2]int
	if err := unix.Pipe2(none[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	unix.Close(none[1])
	p.ours[2] = none[0]
	if !stdin {
		_, err = unix.Write(master, []byte(EndOfInput))
		return err
	}
	p.ours[0], err = unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 0)
	return err
}

// openPTYPeer opens the rank's end of a pseudo-terminal. It does not open the terminal by name, because
// /dev/pts may belong to a different ptmx.
func openPTYPeer(master uintptr, flags int) (fd int, err error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, master, unix.TIOCGPTPEER, uintptr(flags))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// ResizeTerminal sets the size of a terminal. file is the terminal's master end.
func ResizeTerminal(file *os.File, size unix.Winsize) {
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &size) })
	}
}
