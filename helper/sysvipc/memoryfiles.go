//go:build linux

package sysvipc

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MemoryFiles are the files of memory that the processes of a job have: those of memfd_create(2), and those in /dev/shm, which
// stay when nobody has them open any more. The zero value has seen none.
type MemoryFiles struct {
	seen map[fileNumber]time.Time // files in /dev/shm that the job has held, with the times when they were made
}

// Size is how much memory such files take, in bytes: each counts once, whether somebody has it mapped or not. What processes
// have mapped without a descriptor, and is not in /dev/shm, is not among it.
func (s *MemoryFiles) Size(pids []int) (bytes int64) {
	deadline, uid := time.Now().Add(ScanTimeout), os.Geteuid()
	there, now, sizes := make(map[fileNumber]file), make(map[fileNumber]time.Time), make(map[fileNumber]int64)
	for _, f := range listFiles(ShmDir, deadline) {
		if f.plain && f.uid == uid {
			there[f.fileNumber] = f
			if born, seen := s.seen[f.fileNumber]; seen && born.Equal(f.createdAt) {
				now[f.fileNumber] = born
			}
		}
	}
	for _, pid := range pids {
		mappings(pid, deadline, func(n fileNumber) {
			if f, is := there[n]; is {
				now[n] = f.createdAt
			}
		})
		descriptors(pid, deadline, func(to string, is *unix.Stat_t) {
			if n := (fileNumber{is.Dev, is.Ino}); strings.HasPrefix(to, "/memfd:") {
				sizes[n] = is.Blocks * blockSize
			} else if f, is := there[n]; is {
				now[n] = f.createdAt
			}
		})
	}
	s.seen = now
	for n := range now {
		sizes[n] = there[n].memoryBytes
	}
	for _, size := range sizes {
		bytes += size
	}
	return bytes
}
