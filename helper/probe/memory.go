//go:build linux

package probe

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FullShm returns a warning if dir, the file system for shared memory, has at most 1 MiB left, and "" otherwise. A
// process that touches a new page of a full file system is killed with SIGBUS.
func FullShm(dir string) string {
	var fs unix.Statfs_t
	const small = 1 << 20
	if unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 || fs.Bavail*uint64(fs.Bsize) > small {
		return ""
	}
	return fmt.Sprintf("%s is full (%d MiB)", dir, fs.Blocks*uint64(fs.Bsize)>>20)
}
