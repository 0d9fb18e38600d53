//go:build linux

package probe

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FullShm returns a text if the file system for shared memory at dir is full, else "". A process that touches a page of a
// full one gets SIGBUS.
func FullShm(dir string) string {
	var fs unix.Statfs_t
	const small = 1 << 20
	if unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 || fs.Bavail*uint64(fs.Bsize) > small {
		return ""
	}
	return fmt.Sprintf("%s is full (%d MiB)", dir, fs.Blocks*uint64(fs.Bsize)>>20)
}
