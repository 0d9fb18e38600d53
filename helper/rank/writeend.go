//go:build linux

package rank

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenWriteEnd opens a rank's output stream for writing. file is the helper's end of the stream. Bytes
// written to the result follow the rank's output and are read as if the rank had written them. The caller
// must close the result soon, because the stream ends only after that.
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
