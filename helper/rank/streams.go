//go:build linux

package rank

import (
	"os"

	"golang.org/x/sys/unix"
)

// Pipes are the descriptors of a process that is being started. ours contains the helper's ends. theirs contains the
// process's ends, which the helper closes when the process is running.
type Pipes struct {
	ours   [4]int // write end of stdin or -1; read ends of stdout, stderr, PMI
	theirs [4]int
}

// openPipes opens the streams of a rank without a terminal, and its PMI connection.
func openPipes(stdin, merge bool) (Pipes, error) {
	return openWith(func(p *Pipes) error { return p.openStreams(stdin, merge) })
}

// openWith calls streams to open the streams of a rank, and opens its PMI connection. Only the helper's ends are
// nonblocking. The rank's ends must block: the rank's child processes share them and do not expect nonblocking
// descriptors.
func openWith(streams func(*Pipes) error) (p Pipes, err error) {
	p = Pipes{ours: [4]int{-1, -1, -1, -1}, theirs: [4]int{-1, -1, -1, -1}}
	defer func() {
		if err != nil {
			p.close(p.ours[:])
			p.close(p.theirs[:])
		}
	}()
	if err = streams(&p); err != nil {
		return p, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return p, err
	}
	p.ours[3], p.theirs[3] = pair[0], pair[1]
	for _, fd := range p.ours {
		if fd >= 0 {
			// O_NONBLOCK is the only flag of a new descriptor, so it is set without asking for the others first.
			if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

func (p *Pipes) openStreams(stdin, merge bool) (err error) {
	var fds [2]int
	if stdin {
		if err = unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		p.theirs[0], p.ours[0] = fds[0], fds[1]
	} else if p.theirs[0], err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	for i := 1; i <= 2; i++ {
		if err = unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		p.ours[i], p.theirs[i] = fds[0], fds[1]
	}
	if merge { // the other pipe has no writer, so its reader sees the end
		err = unix.Dup3(p.theirs[1], p.theirs[2], unix.O_CLOEXEC)
	}
	return err
}

// closePMI closes the PMI connection. It is called for a rank that connects to a port instead (PMI_PORT).
func (p *Pipes) closePMI() {
	p.close(p.ours[3:])
	p.close(p.theirs[3:])
}

func (p *Pipes) close(fds []int) {
	for i, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
			fds[i] = -1
		}
	}
}

// Close closes the helper's ends of the streams, except ends that Stdin, Stdout, Stderr or PMI has already returned.
func (p *Pipes) Close() { p.close(p.ours[:]) }

// Stdin returns the helper's end of the standard input, or nil if there is none. Like Stdout, Stderr and PMI,
// it may be called only once.
func (p *Pipes) Stdin() *os.File { return p.file(0, "stdin") }

// Stdout returns the helper's end of the standard output, or of the terminal. It may be called once.
func (p *Pipes) Stdout() *os.File { return p.file(1, "stdout") }

// Stderr returns the helper's end of the standard error. It may be called once.
func (p *Pipes) Stderr() *os.File { return p.file(2, "stderr") }

// PMI returns the helper's end of PMI_FD, or nil if there is none. It may be called once.
func (p *Pipes) PMI() *os.File { return p.file(3, "PMI_FD") }

func (p *Pipes) file(i int, name string) *os.File {
	if p.ours[i] < 0 {
		return nil
	}
	file := os.NewFile(uintptr(p.ours[i]), name)
	p.ours[i] = -1
	return file
}
