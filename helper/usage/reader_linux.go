package usage

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
A Reader reads /proc: one file of each process that may be of the job, which is some 5 µs, and of
each other once. What is not below the helper never comes there, so it is passed over as long as it
lives; the number of its folder's inode, which the listing tells, says that it is still the same process.

	/proc --list--> pid, inode --.-- known and not ours: passed over
	                             '-- others: read --> below the helper, or the parent is gone: told
	                                              '-> strange from now on
*/
type Reader struct {
	Helper    int                 // whose descendants are looked for
	dir       int                 // /proc; 0: not open yet
	previous  map[int]seenProcess // what was seen in the last pass
	current   map[int]seenProcess // and in this one
	parents   map[int]int         // of what was read in this pass
	openFiles int                 // files that are kept open
	entries   [32 << 10]byte
	buf       [1024]byte // of stat, which is shorter
}

// A seenProcess is what is kept of a process from pass to pass.
type seenProcess struct {
	inode     uint64
	unrelated bool // it is not below the helper
	statFD    int  // of one that is, open; 0: it is not
}

// maxOpenFiles is how many files are kept open, since that spares half of the time: few enough for a process that
// may have 1,024.
const maxOpenFiles = 256

// Read looks at all processes, in the order of their numbers. So a parent is mostly read before
// its child, and what a child has consumed that ends meanwhile is not seen of both.
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
			p, there := parseStat(r.readStat(pid, &seen))
			if p.PID = pid; there {
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

// endPass makes what was seen in this pass the past, and lets those go that are not there any more.
func (r *Reader) endPass() {
	for _, gone := range r.previous {
		r.closeStat(&gone)
	}
	r.previous, r.current = r.current, r.previous
	clear(r.current)
	clear(r.parents)
}

// closeStat closes what is open of a process.
func (r *Reader) closeStat(s *seenProcess) {
	if s.statFD != 0 {
		unix.Close(s.statFD)
		s.statFD = 0
		r.openFiles--
	}
}

// Close lets /proc go.
func (r *Reader) Close() {
	r.endPass()
	r.endPass()
	if r.dir != 0 {
		unix.Close(r.dir)
		r.dir = 0
	}
}

// listPIDs lists the processes that there are, with the inodes of their folders.
func (r *Reader) listPIDs(each func(pid int, inode uint64)) {
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
				each(int(pid), binary.NativeEndian.Uint64(rest))
			}
			rest = rest[size:]
		}
	}
}

// Where getdents64(2) has the size and the name of an entry, which begins with the inode.
const (
	direntSize = 16
	direntName = 19
)

// isUnrelated reports whether a process is certainly not below the helper: its parents are known, up to the
// first of all. A parent that is gone may have been ours, and the child be the helper's by now.
func (r *Reader) isUnrelated(pid int) bool {
	for range len(r.parents) + 1 { // numbers that were used again could make a circle
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

// readStat reads what the kernel tells of a process; it is empty if that is gone.
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

// Descendants are the processes below the helper.
func (r *Reader) Descendants(all []Process) (below []Process) {
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.PID] = p.Parent
	}
	for _, p := range all {
		pid := p.Parent
		for range all { // numbers that were used again could make a circle
			if pid == r.Helper || pid == 0 {
				break
			}
			pid = parents[pid]
		}
		if pid == r.Helper && p.PID != r.Helper {
			below = append(below, p)
		}
	}
	return below
}

// TotalMemory is what processes have, in bytes, where memory that several of them share counts once. inFiles is what is known of
// memory in files, which may be mapped or not. Where all together is not more than most, shared memory may be counted more than
// once: to look closer takes milliseconds for each GiB.
func (r *Reader) TotalMemory(of []Process, inFiles, most int64) int64 {
	resident := inFiles
	for _, p := range of {
		resident += p.Mem
	}
	if resident <= most {
		return resident
	}
	var own, shared int64
	for _, p := range of {
		if size, mapped, told := r.readSmapsRollup(p.PID); told {
			own, shared = own+size-mapped, shared+mapped
		} else {
			own += p.Mem
		}
	}
	return own + max(shared, inFiles)
}

// readSmapsRollup is the proportional set of a process, and how much of it is in files of memory.
func (r *Reader) readSmapsRollup(pid int) (size, shared int64, told bool) {
	fd, err := unix.Openat(r.dir, strconv.Itoa(pid)+"/smaps_rollup", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, false
	}
	n, _ := unix.Read(fd, r.buf[:])
	unix.Close(fd)
	text := r.buf[:max(n, 0)]
	size, told = smapsField(text, "Pss")
	shared, known := smapsField(text, "Pss_Shmem")
	if !known { // before Linux 5.4
		shared = size
	}
	return size, shared, told
}

// smapsField finds a size in smaps_rollup, in bytes.
func smapsField(text []byte, name string) (size int64, told bool) {
	_, rest, told := bytes.Cut(text, []byte("\n"+name+":"))
	number, _, _ := bytes.Cut(bytes.TrimLeft(rest, " \t"), []byte(" kB"))
	if kib := parseDigits(number); told && len(number) > 0 && kib >= 0 && kib < 1<<50 {
		return kib << 10, true
	}
	return 0, false
}

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on every Linux we run on.
const clockTick = time.Second / 100

var pageSize = int64(os.Getpagesize())

// pfForkNoExec is a process's flag of the kernel, PF_FORKNOEXEC: it has not called exec(2) since its fork.
const pfForkNoExec = 0x40

// parseStat reads proc_pid_stat(5) but for the number. What we have forked ourselves is nothing before its exec: until then it
// has our memory, which would be counted as the rank's. The name, in parentheses, may hold anything,
// so what counts is read behind the last parenthesis.
func parseStat(stat []byte) (p Process, ok bool) {
	var fields [22]int64 // from the state on; -1 where it is no number
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
