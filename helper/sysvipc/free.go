//go:build linux

package sysvipc

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// FreeTimeout is the maximum time for removing what ranks have left in shared memory (rule PD-17).
const FreeTimeout = time.Second

// MaxFreed is the maximum number of shared memory objects that are removed at the end of a job.
const MaxFreed = 4096

// Free removes the shared memory and the semaphore sets that processes of the job have left behind. All processes of
// the job must have ended. Free returns what it has removed.
func (b *Tracker) Free() (o FreeResult) {
	if !b.HasWork() {
		return o
	}
	deadline, uid := time.Now().Add(b.freeTimeout), os.Geteuid()
	add := func(r job.Leftover, err error) bool {
		if err != nil {
			r.Err = err.Error()
		}
		o.Freed = append(o.Freed, r)
		return len(o.Freed) == MaxFreed || time.Now().After(deadline)
	}
	for _, left := range b.leftSegments(parseSegments(readTable("shm")), uid) {
		freed, err := left.object.free()
		if (freed || err != nil) && add(job.Leftover{Kind: job.LeftoverSysVShm, ID: strconv.Itoa(left.object.id), Bytes: left.object.size, Rank: left.rank}, err) {
			return o
		}
	}
	for _, left := range b.leftFiles(listFiles(ShmDir, deadline), uid) {
		freed, err := left.object.free(ShmDir)
		if (freed || err != nil) && add(job.Leftover{Kind: job.LeftoverPosixShm, ID: filepath.Join(ShmDir, left.object.name), Bytes: left.object.size, Rank: left.rank}, err) {
			return o
		}
	}
	o.Semaphores = b.freeSets(uid, deadline, add)
	slices.SortStableFunc(o.Freed, func(a, b job.Leftover) int { return cmp.Compare(a.Rank, b.Rank) })
	return o
}

// readTable returns a table in /proc/sysvipc, or nil if the kernel does not have the table.
func readTable(name string) []byte {
	f, err := os.Open("/proc/sysvipc/" + name)
	if err != nil {
		return nil // a kernel without System V IPC
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxTable))
	return text
}

// free removes a shared memory segment, unless the segment has changed since it was listed or a process is attached to
// it. freed is true if the segment was removed.
func (s sysvSegment) free() (freed bool, err error) {
	var now unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(s.id, unix.IPC_STAT, &now); err != nil {
		return false, ignoreGone(err)
	}
	if int(now.Perm.Key) != s.key || now.Ctime != s.changed || int(now.Cpid) != s.cpid || int(now.Perm.Cuid) != s.cuid || now.Nattch != 0 {
		return false, nil
	}
	if _, err := unix.SysvShmCtl(s.id, unix.IPC_RMID, nil); err != nil {
		return false, ignoreGone(err)
	}
	return true, nil
}

/*
free removes a file, unless it has changed since it was listed or another process holds it. Before that, free
takes a write lease, which the kernel grants only if no other process has the file open or mapped. While the lease lasts,
a process that opens the file has to wait.

	open --> the same file? --> lease --> still the same name? --> unlink --> close
	                              '-- EAGAIN: a process holds it: keep it
*/
func (f file) free(folder string) (freed bool, err error) {
	dir, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, ignoreGone(err)
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, f.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENXIO || err == unix.EAGAIN {
		return false, nil // it is another file by now, or has another process's lease
	}
	if err != nil {
		return false, ignoreGone(err)
	}
	defer unix.Close(fd)
	if now, ok := statFile(fd, ""); !ok || !now.isSameFile(f) {
		return false, nil
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false, nil // EAGAIN: it is in use; EINVAL: leases are not supported
	}
	if now, ok := statFile(dir, f.name); !ok || !now.isSameFile(f) {
		return false, nil
	}
	if err := unix.Unlinkat(dir, f.name, 0); err != nil {
		return false, ignoreGone(err)
	}
	return true, nil
}

// isSameFile reports whether f is a regular file with the same inode, owner and creation time as earlier.
func (f file) isSameFile(earlier file) bool {
	return f.fileNumber == earlier.fileNumber && f.uid == earlier.uid && f.plain && f.createdAt.Equal(earlier.createdAt)
}

// ignoreGone returns err, or nil if err means that the object no longer exists.
func ignoreGone(err error) error {
	if err == unix.ENOENT || err == unix.EINVAL || err == unix.EIDRM {
		return nil
	}
	return err
}
