//go:build linux

package rank

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenWriteEnd opens a rank's stream for writing. file is our end of it. What is written follows the rank's output,
// and is read as if the rank wrote it. The caller has to close it soon, since the stream does not end before.
func OpenWriteEnd(file *os.File, terminal bool) (stream *os.File, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	ended := raw.Control(func(ours uintptr) {
		const flags = unix.O_WRONLY | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NONBLOCK
		if terminal {
			fd, err = openPTYPeer(ours, flags)
		} else {
			fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", ours), flags, 0)
		}
	})
	if ended != nil {
		return nil, ended
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
