package cli

import "golang.org/x/sys/unix"

// keepNewlines lets a terminal that is raw go on to put a carriage return before each
// newline.
func keepNewlines(fd int) {
	if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		t.Oflag |= unix.OPOST | unix.ONLCR
		unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
}
