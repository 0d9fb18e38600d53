//go:build linux

package sysvipc

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MemoryFiles measures the memory of files that a job's processes hold: files made by memfd_create(2), and files in
// /dev/shm. It remembers files in /dev/shm, because they take memory even when no process holds them. The zero value is
// ready to use.
type MemoryFiles struct {
	seen map[fileNumber]time.Time // files in /dev/shm that the job has held, with their creation times
}

// Size returns the memory of the job's files, in bytes. pids lists the job's processes. Each file is counted once,
// whether it is mapped or only open. Memory outside of /dev/shm that is mapped without a descriptor is not counted.
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
		forEachMapping(pid, deadline, func(n fileNumber) {
			if f, known := there[n]; known {
				now[n] = f.createdAt
			}
		})
		descriptors(pid, deadline, func(target string, st *unix.Stat_t) {
			if n := (fileNumber{st.Dev, st.Ino}); strings.HasPrefix(target, "/memfd:") {
				sizes[n] = st.Blocks * blockSize
			} else if f, known := there[n]; known {
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
