//go:build linux

package rank

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// Priority is the priority of mpiexec, which ranks get as well (rule ENV-8). The fork thread, which starts
// the ranks, takes on this priority, so that ranks have it from their first instruction. If the node does not
// allow the helper to raise a priority, the helper's own priority remains.
type Priority job.Priority

// OwnPriority returns the priority of the calling thread. Known is false if the niceness cannot be read.
func OwnPriority() Priority {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the system call returns 20 - niceness
	if err != nil {
		return Priority{}
	}
	p := Priority{Known: true, Nice: 20 - raw, IO: ownIOPriority()}
	if p.IO == bestEffort<<ioClassShift|(p.Nice+20)/5 { // some kernels return the default that follows from the niceness
		p.IO = 0
	}
	text, _ := os.ReadFile(oomFile)
	p.OOMScore, _ = strconv.Atoi(string(bytes.TrimSpace(text)))
	return p
}

// oomFile is the file that contains the OOM score adjustment of this process (proc(5)).
const oomFile = "/proc/self/oom_score_adj"

// These constants are for the I/O priority of ioprio_set(2).
const (
	ioWhoProcess = 1 // IOPRIO_WHO_PROCESS; with the ID 0: the calling thread
	ioClassShift = 13
	realTime     = 1
	bestEffort   = 2
)

// ownIOPriority returns the I/O priority of the calling thread, or 0 if it has none of its own.
func ownIOPriority() int {
	value, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioWhoProcess, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(value)
}

// SetForForks sets the niceness and I/O priority of the calling thread, and the OOM score adjustment of its process,
// as far as this node allows them. restore resets the OOM score adjustment. The thread must only be used to fork
// ranks, because it keeps the niceness and I/O priority: an ordinary user may not raise a priority again. If p.Known
// is false, nothing changes.
//
// denied contains a text for each value that the node does not allow. isRaised is true if one of these values is a
// higher priority than processes usually have, which means that the user has asked for it.
func (p Priority) SetForForks() (restore func(), denied []string, isRaised bool) {
	own := OwnPriority()
	if !p.Known || !own.Known {
		return func() {}, nil, false
	}
	refuse := func(what, wanted, got string, raised bool) {
		denied = append(denied, fmt.Sprintf("this host does not allow %s %s, so ranks run with %s", what, wanted, got))
		isRaised = isRaised || raised
	}
	if got := setNice(p.Nice, own.Nice); got != p.Nice {
		refuse("niceness", strconv.Itoa(p.Nice), strconv.Itoa(got), p.Nice < 0)
	}
	if p.IO != own.IO {
		if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioWhoProcess, 0, uintptr(p.IO)); errno != 0 {
			refuse("I/O priority", ioText(p.IO), ioText(own.IO), p.IO>>ioClassShift == realTime)
		}
	}
	if p.OOMScore == own.OOMScore {
		return func() {}, denied, isRaised
	}
	if err := writeOOMScore(p.OOMScore); err != nil {
		refuse("OOM score adjustment", strconv.Itoa(p.OOMScore), strconv.Itoa(own.OOMScore), p.OOMScore < 0)
		return func() {}, denied, isRaised
	}
	return func() { writeOOMScore(own.OOMScore) }, denied, isRaised
}

// setNice sets the niceness of the calling thread to wanted, or to the nearest value that the node allows
// (RLIMIT_NICE). It returns the resulting niceness. current is the present niceness.
func setNice(wanted, current int) int {
	if wanted == current || unix.Setpriority(unix.PRIO_PROCESS, 0, wanted) == nil {
		return wanted
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NICE, &limit) != nil {
		return current
	}
	if nearest := max(wanted, lowestNice(limit.Cur)); nearest < current && unix.Setpriority(unix.PRIO_PROCESS, 0, nearest) == nil {
		return nearest
	}
	return current
}

// lowestNice returns the lowest niceness that an ordinary user may set if the soft limit RLIMIT_NICE has the
// given value.
func lowestNice(limit uint64) int { return 20 - int(min(limit, 40)) }

func writeOOMScore(score int) error { return os.WriteFile(oomFile, []byte(strconv.Itoa(score)), 0) }

// ioText formats an I/O priority with the class names of ionice(1), such as "best-effort 4".
func ioText(value int) string {
	class, level := value>>ioClassShift, value&(1<<ioClassShift-1)
	switch class {
	case 0:
		return "none"
	case 3:
		return "idle"
	}
	names := []string{realTime: "realtime", bestEffort: "best-effort"}
	if class < len(names) {
		return fmt.Sprintf("%s %d", names[class], level)
	}
	return strconv.Itoa(value)
}
