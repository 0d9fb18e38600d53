package sample

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// A Reader reads /proc: one file of each process, which is some 5 µs.
type Reader struct {
	buf [1024]byte // of stat, which is shorter
}

// Read looks at all processes, in the order of their numbers. So a parent is mostly read before
// its child, and what a child has consumed that ends meanwhile is not seen of both.
func (r *Reader) Read() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make([]Process, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if p, there := parse(r.stat(int(dir.Fd()), name+"/stat")); there {
			if pid, err := strconv.Atoi(name); err == nil {
				p.PID = pid
				all = append(all, p)
			}
		}
	}
	return all
}

// stat reads a file below a folder; it is empty if the process is gone.
func (r *Reader) stat(dir int, name string) []byte {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, r.buf[:])
	return r.buf[:max(n, 0)]
}

// tick is the unit of times in /proc: USER_HZ, which is 100 on every Linux we run on.
const tick = time.Second / 100

var pageSize = int64(os.Getpagesize())

// forked is a process's flag of the kernel, PF_FORKNOEXEC: it has not called exec(2) since its fork.
const forked = 0x40

// parse reads proc_pid_stat(5) but for the number. What we have forked ourselves is nothing before its exec: until then it
// has our memory, which would be counted as the rank's. The name, in parentheses, may hold anything,
// so what counts is read behind the last parenthesis.
func parse(stat []byte) (p Process, ok bool) {
	var fields [22]int64 // from the state on; -1 where it is no number
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	n := 0
	for ; n < len(fields); n++ {
		rest = bytes.TrimLeft(rest, " ")
		end := bytes.IndexAny(rest, " \n")
		if end < 0 {
			break
		}
		fields[n] = digits(rest[:end])
		rest = rest[end:]
	}
	if int(fields[1]) == os.Getpid() && fields[6]&forked != 0 {
		return Process{}, false
	}
	ticks := fields[11] + fields[12] + max(fields[13], 0) + max(fields[14], 0)
	return Process{Parent: int(fields[1]), Group: int(fields[2]), Born: uint64(fields[19]),
		Sample: job.Sample{CPU: time.Duration(ticks) * tick, VMem: max(fields[20], 0), Mem: max(fields[21], 0) * pageSize}}, n == len(fields)
}

func digits(text []byte) (n int64) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<58 {
			return -1
		}
		n = 10*n + int64(c-'0')
	}
	return n
}
