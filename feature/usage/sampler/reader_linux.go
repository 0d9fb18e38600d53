package sampler

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

/*
A Reader reads /proc. In each pass it reads one file of each process that may be part of the job. Reading a file takes
about 5 µs. So the Reader reads the file of each unrelated process only once. A process that does not descend from the
helper can never become a descendant, so the Reader skips it as long as it lives. The inode of the directory in /proc,
which is part of the listing, shows that it is still the same process.

	/proc --list--> pid, inode --.-- known to be unrelated: skipped
	                             '-- others: read --> descends from the helper, or its parent is gone: returned
	                                              '-> unrelated from now on
*/
type Reader struct {
	Helper    int                 // PID whose descendants are read
	dir       int                 // descriptor of /proc; 0: not open yet
	previous  map[int]seenProcess // processes of the last pass, by PID
	current   map[int]seenProcess // processes of this pass, by PID
	parents   map[int]int         // parents of the processes read in this pass
	openFiles int                 // number of stat files kept open
	entries   [32 << 10]byte
	buf       [1024]byte // contents of stat, which is shorter
}

// A seenProcess holds the data about a process that the Reader keeps from one pass over /proc to the next.
type seenProcess struct {
	inode     uint64
	unrelated bool // not a descendant of the helper
	statFD    int  // its open stat file; 0: not open
}

// maxOpenFiles is the maximum number of stat files that stay open between passes. Keeping them open saves half of the
// time of a pass. A process may have only 1,024 open files.
const maxOpenFiles = 256

// Read reads and returns the processes that may belong to the job, in the order of their PIDs. So it usually reads a
// parent before its child, and the CPU time of a child that ends meanwhile is not counted twice.
func (r *Reader) Read() []Process {
	if r.dir == 0 {
		fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		r.dir, r.previous, r.current, r.parents = fd, make(map[int]seenProcess), make(map[int]seenProcess), make(map[int]int)
	}
	all := make([]Process, 0, len(r.previous))
	r.listPIDs(func(pid int, inode uint64) {
		seen := seenProcess{inode: inode}
		if was, known := r.previous[pid]; known && was.inode == inode && inode != 0 {
			delete(r.previous, pid)
			seen = was
		}
		if !seen.unrelated {
			p, ok := parseStat(r.readStat(pid, &seen))
			if p.PID = pid; ok {
				all, r.parents[pid] = append(all, p), p.Parent
			}
		}
		r.current[pid] = seen
	})
	all = slices.DeleteFunc(all, func(p Process) bool {
		seen := r.current[p.PID]
		if seen.unrelated = r.isUnrelated(p.PID); seen.unrelated {
			r.closeStat(&seen)
			r.current[p.PID] = seen
		}
		return seen.unrelated
	})
	r.endPass()
	return all
}

// endPass ends a pass over /proc, and forgets the processes that have ended.
func (r *Reader) endPass() {
	for _, gone := range r.previous {
		r.closeStat(&gone)
	}
	r.previous, r.current = r.current, r.previous
	clear(r.current)
	clear(r.parents)
}

func (r *Reader) closeStat(s *seenProcess) {
	if s.statFD != 0 {
		unix.Close(s.statFD)
		s.statFD = 0
		r.openFiles--
	}
}

// Close closes all files that the Reader keeps open.
func (r *Reader) Close() {
	r.endPass()
	r.endPass()
	if r.dir != 0 {
		unix.Close(r.dir)
		r.dir = 0
	}
}

// listPIDs calls visit for all processes, with the inodes of their directories in /proc.
func (r *Reader) listPIDs(visit func(pid int, inode uint64)) {
	unix.Seek(r.dir, 0, unix.SEEK_SET)
	for {
		n, err := unix.Getdents(r.dir, r.entries[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for rest := r.entries[:n]; len(rest) > direntName; {
			size := binary.NativeEndian.Uint16(rest[direntSize:])
			name, _, _ := bytes.Cut(rest[direntName:size], []byte{0})
			if pid := parseDigits(name); pid > 0 {
				visit(int(pid), binary.NativeEndian.Uint64(rest))
			}
			rest = rest[size:]
		}
	}
}

// These are the offsets of the size and the name in an entry of getdents64(2). The entry begins with the
// inode.
const (
	direntSize = 16
	direntName = 19
)

// isUnrelated reports whether a process is certainly not a descendant of the helper. It returns false if an
// ancestor is unknown, or if a parent has ended, because the process may then have become the helper's child.
func (r *Reader) isUnrelated(pid int) bool {
	for range len(r.parents) + 1 { // reused PIDs could form a cycle
		parent, read := r.parents[pid]
		known := r.current[pid].unrelated
		switch {
		case pid == r.Helper:
			return false
		case pid == 0 || known:
			return true
		case !read:
			return false
		}
		pid = parent
	}
	return false
}

// readStat reads the stat file of a process. It returns an empty result if the process has ended.
func (r *Reader) readStat(pid int, s *seenProcess) []byte {
	if s.statFD == 0 {
		fd, err := unix.Openat(r.dir, strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		s.statFD = fd
		r.openFiles++
	}
	n, err := unix.Pread(s.statFD, r.buf[:], 0)
	if err != nil || r.openFiles > maxOpenFiles {
		r.closeStat(s)
	}
	return r.buf[:max(n, 0)]
}

// Descendants returns those of the given processes that descend from the helper.
func (r *Reader) Descendants(all []Process) (descendants []Process) {
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.PID] = p.Parent
	}
	for _, p := range all {
		pid := p.Parent
		for range all { // reused PIDs could form a cycle
			if pid == r.Helper || pid == 0 {
				break
			}
			pid = parents[pid]
		}
		if pid == r.Helper && p.PID != r.Helper {
			descendants = append(descendants, p)
		}
	}
	return descendants
}

// TotalMemory returns the memory of processes in bytes. inFiles is the size of in-memory files (sysvipc.MemoryFiles),
// which are part of the memory. If the total exceeds limit, memory that processes share is counted only once.
// Otherwise it may be counted more than once, since an exact count takes milliseconds for each GiB.
func (r *Reader) TotalMemory(processes []Process, inFiles, limit int64) int64 {
	resident := inFiles
	for _, p := range processes {
		resident += p.Mem
	}
	if resident <= limit {
		return resident
	}
	var own, shared int64
	for _, p := range processes {
		if size, mapped, ok := r.readSmapsRollup(p.PID); ok {
			own, shared = own+size-mapped, shared+mapped
		} else {
			own += p.Mem
		}
	}
	return own + max(shared, inFiles)
}

// readSmapsRollup returns the proportional set size of a process in bytes. shared is the part of it that belongs to
// in-memory files and shared memory. ok is false if these sizes cannot be read.
func (r *Reader) readSmapsRollup(pid int) (size, shared int64, ok bool) {
	fd, err := unix.Openat(r.dir, strconv.Itoa(pid)+"/smaps_rollup", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, false
	}
	n, _ := unix.Read(fd, r.buf[:])
	unix.Close(fd)
	text := r.buf[:max(n, 0)]
	size, ok = smapsField(text, "Pss")
	shared, known := smapsField(text, "Pss_Shmem")
	if !known { // before Linux 5.4
		shared = size
	}
	return size, shared, ok
}

// smapsField returns the size with the given name in a smaps_rollup file, in bytes. ok is false if the file does not
// contain it.
func smapsField(text []byte, name string) (size int64, ok bool) {
	_, rest, ok := bytes.Cut(text, []byte("\n"+name+":"))
	number, _, _ := bytes.Cut(bytes.TrimLeft(rest, " \t"), []byte(" kB"))
	if kib := parseDigits(number); ok && len(number) > 0 && kib >= 0 && kib < 1<<50 {
		return kib << 10, true
	}
	return 0, false
}

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every supported Linux.
const clockTick = time.Second / 100

var pageSize = int64(os.Getpagesize())

// pfForkNoExec is the kernel's process flag PF_FORKNOEXEC: the process has not called exec(2) since its fork.
const pfForkNoExec = 0x40

// parseStat parses the contents of a file /proc/PID/stat (proc_pid_stat(5)). It does not set p.PID. It returns false
// for a child of the helper that has not called exec yet: the memory of such a child is the helper's, and must not be
// counted for a rank. The name in parentheses may contain anything, so fields are read after the last parenthesis.
func parseStat(stat []byte) (p Process, ok bool) {
	var fields [22]int64 // from the state on; -1 if not a number
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	n := 0
	for ; n < len(fields); n++ {
		rest = bytes.TrimLeft(rest, " ")
		end := bytes.IndexAny(rest, " \n")
		if end < 0 {
			break
		}
		fields[n] = parseDigits(rest[:end])
		rest = rest[end:]
	}
	if int(fields[1]) == os.Getpid() && fields[6]&pfForkNoExec != 0 {
		return Process{}, false
	}
	ticks := fields[11] + fields[12] + max(fields[13], 0) + max(fields[14], 0)
	return Process{Parent: int(fields[1]), Group: int(fields[2]), StartTicks: uint64(fields[19]),
		UsageSample: job.UsageSample{CPU: time.Duration(ticks) * clockTick, VMem: max(fields[20], 0), Mem: max(fields[21], 0) * pageSize}}, n == len(fields)
}

func parseDigits(text []byte) (n int64) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<58 {
			return -1
		}
		n = 10*n + int64(c-'0')
	}
	return n
}
