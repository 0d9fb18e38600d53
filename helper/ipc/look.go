//go:build linux

package ipc

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

// Folder is where files of shared memory are (shm_overview(7)).
const Folder = "/dev/shm"

// LookTime is how long a look at the processes of a job may take (PD-21).
const LookTime = 200 * time.Millisecond

// pause is between two looks: the end of a job often follows its first failure at once.
const pause = time.Second

// maxEntries is how many names of the folder are looked at; any user may make files there.
const maxEntries = 1 << 16

// Look notes which files of shared memory the processes of a job hold; all makes the list of them. If that takes
// longer than LookTime, files are left alone.
func (b *Book) Look(all func() []Process) {
	if b == nil || !b.looked.IsZero() && time.Since(b.looked) < pause {
		return
	}
	b.looked = time.Now()
	deadline := b.looked.Add(b.lookTime)
	now := coarseNow()
	uid, ours := os.Geteuid(), nameSpace("self")
	fresh := make(map[fileNumber]file)
	for _, f := range list(Folder, deadline) {
		if b.fresh(f, uid) {
			fresh[f.fileNumber] = f
		}
	}
	for _, p := range all() {
		b.note(p, now)
		if len(fresh) == 0 || nameSpace(strconv.Itoa(p.PID)) != ours {
			continue // it may see another folder, or other segments
		}
		held(p.PID, deadline, func(i fileNumber) {
			if f, is := fresh[i]; is {
				b.saw(f, p.Rank)
			}
		})
	}
	b.hasty = b.hasty || time.Now().After(deadline)
}

// nameSpace is the name of the IPC name space of a process.
func nameSpace(pid string) string {
	name, _ := os.Readlink("/proc/" + pid + "/ns/ipc")
	return name
}

// held finds the files that a process has mapped, and those of the folder that it has open.
func held(pid int, deadline time.Time, found func(fileNumber)) {
	mappings(pid, deadline, found)
	descriptors(pid, deadline, func(to string, is *unix.Stat_t) {
		if strings.HasPrefix(to, Folder+"/") {
			found(fileNumber{is.Dev, is.Ino})
		}
	})
}

// mappings finds the files that a process has mapped.
func mappings(pid int, deadline time.Time, found func(fileNumber)) {
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

// descriptors finds the files of memory that a process has open, and where its descriptors lead to.
func descriptors(pid int, deadline time.Time, found func(to string, is *unix.Stat_t)) {
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
			// What is behind other descriptors may be a file on a server that does not answer.
			to, _ := os.Readlink(path)
			if !strings.HasPrefix(to, Folder+"/") && !strings.HasPrefix(to, "/memfd:") {
				continue
			}
			var is unix.Stat_t
			if unix.Stat(path, &is) == nil {
				found(to, &is)
			}
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

// list looks at the files of a folder, as far as it comes until a deadline.
func list(folder string, deadline time.Time) (files []file) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	for len(files) < maxEntries && time.Now().Before(deadline) {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if f, ok := lookAt(unix.AT_FDCWD, filepath.Join(folder, name)); ok {
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

// lookAt tells of a file what counts; it follows no link. With an empty path it tells of dir itself.
func lookAt(dir int, path string) (file, bool) {
	var is unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_UID | unix.STATX_INO | unix.STATX_BTIME | unix.STATX_SIZE | unix.STATX_BLOCKS
	if err := unix.Statx(dir, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH, want, &is); err != nil {
		return file{}, false
	}
	f := file{fileNumber: fileNumber{makeDev(is.Dev_major, is.Dev_minor), is.Ino}, uid: int(is.Uid), plain: is.Mode&unix.S_IFMT == unix.S_IFREG, size: int64(is.Size), taken: int64(is.Blocks) * blockSize}
	if is.Mask&unix.STATX_BTIME != 0 {
		f.born = time.Unix(is.Btime.Sec, int64(is.Btime.Nsec))
	}
	return f, true
}

// blockSize is the unit of stat(2).
const blockSize = 512

func makeDev(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }

// coarseNow is the time by the clock that the kernel writes into files: it may be some milliseconds behind.
func coarseNow() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return time.Now()
	}
	return time.Unix(now.Unix())
}
