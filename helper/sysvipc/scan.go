//go:build linux

package sysvipc

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ShmDir is the directory of POSIX shared memory (shm_overview(7)).
const ShmDir = "/dev/shm"

// ScanTimeout is the maximum time for a scan of the job's processes (rule PD-21).
const ScanTimeout = 200 * time.Millisecond

// scanPause is the shortest time between two scans. The first failure and the end of a job each cause a scan. If
// they are closer together, the second scan is left out.
const scanPause = time.Second

// maxEntries is the maximum number of names in ShmDir that are read. A limit is needed because any user may create
// files there.
const maxEntries = 1 << 16

// Scan records which files of shared memory are held by processes of the job. all returns these processes. If
// a scan takes longer than ScanTimeout, no files are removed at the end of the job. A nil Tracker does
// nothing.
func (b *Tracker) Scan(all func() []Process) {
	if b == nil || !b.lastScan.IsZero() && time.Since(b.lastScan) < scanPause {
		return
	}
	b.lastScan = time.Now()
	deadline := b.lastScan.Add(b.scanTimeout)
	now := fileClockNow()
	uid, own := os.Geteuid(), ipcNamespace("self")
	fresh := make(map[fileNumber]file)
	for _, f := range listFiles(ShmDir, deadline) {
		if b.isCandidate(f, uid) {
			fresh[f.fileNumber] = f
		}
	}
	for _, p := range all() {
		b.noteProcess(p, now)
		if len(fresh) == 0 || ipcNamespace(strconv.Itoa(p.PID)) != own {
			continue // it may have another /dev/shm, or other segments
		}
		heldBy(p.PID, deadline, func(i fileNumber) {
			if f, known := fresh[i]; known {
				b.noteHeld(f, p.Rank)
			}
		})
	}
	b.incomplete = b.incomplete || time.Now().After(deadline)
}

// ipcNamespace returns an identifier of a process's IPC namespace.
func ipcNamespace(pid string) string {
	name, _ := os.Readlink("/proc/" + pid + "/ns/ipc")
	return name
}

// heldBy calls found for each file that a process holds: files that it has mapped, and files of ShmDir that
// it has open.
func heldBy(pid int, deadline time.Time, found func(fileNumber)) {
	forEachMapping(pid, deadline, found)
	descriptors(pid, deadline, func(target string, st *unix.Stat_t) {
		if strings.HasPrefix(target, ShmDir+"/") {
			found(fileNumber{st.Dev, st.Ino})
		}
	})
}

// forEachMapping calls found for each file that a process has mapped. It returns early when the deadline has passed.
func forEachMapping(pid int, deadline time.Time, found func(fileNumber)) {
	maps, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	lines := bufio.NewScanner(io.LimitReader(maps, maxMaps))
	for n := 0; lines.Scan(); n++ {
		if i, ok := parseMapping(lines.Bytes()); ok {
			found(i)
		}
		if n%256 == 0 && time.Now().After(deadline) {
			return
		}
	}
}

// descriptors calls found for each in-memory file that a process has open. The first argument of
// found is the target of the descriptor's link in /proc.
func descriptors(pid int, deadline time.Time, found func(target string, st *unix.Stat_t)) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	fds, err := os.Open(dir)
	if err != nil {
		return
	}
	defer fds.Close()
	for time.Now().Before(deadline) {
		names, err := fds.Readdirnames(256)
		for _, name := range names {
			path := dir + "/" + name
			// Other descriptors are not examined: their files may be on a server that does not respond.
			target, _ := os.Readlink(path)
			if !strings.HasPrefix(target, ShmDir+"/") && !strings.HasPrefix(target, "/memfd:") {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(path, &st) == nil {
				found(target, &st)
			}
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

// listFiles returns the files in a directory. At the deadline it returns the files that it has read so far.
func listFiles(folder string, deadline time.Time) (files []file) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	for len(files) < maxEntries && time.Now().Before(deadline) {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if f, ok := statFile(unix.AT_FDCWD, filepath.Join(folder, name)); ok {
				f.name = name
				files = append(files, f)
			}
		}
		if err != nil || len(names) == 0 {
			break
		}
	}
	return files
}

// statFile returns a file's attributes, or false if it cannot read them. It follows no link. If path is empty, the file
// is dir itself.
func statFile(dir int, path string) (file, bool) {
	var st unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_UID | unix.STATX_INO | unix.STATX_BTIME | unix.STATX_SIZE | unix.STATX_BLOCKS
	if err := unix.Statx(dir, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH, want, &st); err != nil {
		return file{}, false
	}
	f := file{fileNumber: fileNumber{makeDev(st.Dev_major, st.Dev_minor), st.Ino}, uid: int(st.Uid), plain: st.Mode&unix.S_IFMT == unix.S_IFREG, size: int64(st.Size), memoryBytes: int64(st.Blocks) * blockSize}
	if st.Mask&unix.STATX_BTIME != 0 {
		f.createdAt = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	return f, true
}

// blockSize is the unit of st_blocks in stat(2), in bytes.
const blockSize = 512

func makeDev(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }

// fileClockNow returns the current time by the clock that the kernel uses for file times. It may be some milliseconds
// behind other clocks.
func fileClockNow() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return time.Now()
	}
	return time.Unix(now.Unix())
}
