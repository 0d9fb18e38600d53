package transport

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
)

// How long the orphans of a killed helper are asked to end, and then made to; as
// its keeper does it on other nodes.
const (
	orphanGrace   = time.Second
	orphanTimeout = 10 * time.Second
	orphanPause   = 5 * time.Millisecond
)

func becomeSubreaper() error { return proc.BecomeSubreaper() }

// runningProgram is this program also after its file was replaced.
func runningProgram() (string, error) { return "/proc/self/exe", nil }

// watchOutOfMemory returns what says whether the kernel has killed processes from now on because memory was short.
func watchOutOfMemory() (outOfMemory func() string) {
	root := os.DirFS("/")
	before := make(chan proc.Denials, 1)
	go func() { before <- proc.CountDenials(root) }() // nobody waits for it
	return func() string {
		since := <-before
		before <- since
		return since.OutOfMemory(root)
	}
}

// A startTime is when a process was started.
type startTime = proc.StartTicks

// startTimeOf is 0 when the process is gone.
func startTimeOf(pid int) startTime {
	_, _, born := proc.ParentStateStart(pid)
	return born
}

// endOrphans ends what a killed helper has left to us: SIGTERM, grace, SIGKILL. It
// reaps nothing, since other goroutines wait for children of their own; the zombies
// go with us.
func endOrphans(helper startTime) {
	start := time.Now()
	sig := unix.SIGTERM
	for time.Since(start) < orphanGrace+orphanTimeout {
		alive := 0
		for _, pid := range findOrphans(helper) {
			for _, p := range append(proc.Descendants(pid), proc.Process{PID: pid}) {
				if !p.Zombie && unix.Kill(p.PID, sig) == nil {
					alive++
				}
			}
		}
		switch {
		case alive == 0:
			return
		case time.Since(start) > orphanGrace:
			sig = unix.SIGKILL
		default:
			sig = unix.Signal(0) // asked once; what is new is asked by its turn
		}
		time.Sleep(orphanPause)
	}
}

// findOrphans lists the living children that we have not started ourselves: they are
// younger than the helper, and hold no pipe to us as the programs do through which
// we reach other nodes.
func findOrphans(helper startTime) []int {
	us := os.Getpid()
	ours := pipesIn("/proc/self/fd")
	var found []int
	for _, p := range proc.Descendants(us) {
		parent, _, born := proc.ParentStateStart(p.PID)
		if p.Zombie || parent != us || born < helper {
			continue
		}
		if stdin, _ := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/fd/0"); !ours[stdin] {
			found = append(found, p.PID)
		}
	}
	return found
}

// pipesIn names the pipes and sockets of a process, but for its standard streams.
func pipesIn(fds string) map[string]bool {
	pipes := map[string]bool{}
	entries, _ := os.ReadDir(fds)
	for _, e := range entries {
		if fd, _ := strconv.Atoi(e.Name()); fd < 3 {
			continue
		}
		to, _ := os.Readlink(fds + "/" + e.Name())
		if strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "socket:") {
			pipes[to] = true
		}
	}
	return pipes
}
