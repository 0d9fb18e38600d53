package transport

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
)

// These are the delays for ending the orphans of a killed helper on this machine. mpiexec sends SIGTERM first, and
// SIGKILL after orphanGrace. On remote nodes, the reaper does the same.
const (
	orphanGrace   = time.Second
	orphanTimeout = 10 * time.Second
	orphanPause   = 5 * time.Millisecond
)

func becomeSubreaper() error { return proc.BecomeSubreaper() }

// runningProgram returns a path of this program that remains valid when its file is replaced.
func runningProgram() (string, error) { return "/proc/self/exe", nil }

// watchOutOfMemory returns a function. That function returns a message about processes that the kernel has
// killed for lack of memory since the call of watchOutOfMemory, or "" if there are none.
func watchOutOfMemory() (outOfMemory func() string) {
	root := os.DirFS("/")
	before := make(chan proc.Denials, 1)
	go func() { before <- proc.CountDenials(root) }() // in the background: outOfMemory waits for it
	return func() string {
		since := <-before
		before <- since
		return since.OutOfMemory(root)
	}
}

// A startTime is the time at which a process was started, in clock ticks since boot.
type startTime = proc.StartTicks

// startTimeOf returns the time at which a process was started. It returns 0 if the process does not exist.
func startTimeOf(pid int) startTime {
	_, _, born := proc.ParentStateStart(pid)
	return born
}

// endOrphans ends the orphans of a killed helper, which are now children of this process, with SIGTERM, a
// grace period, and SIGKILL. It does not call wait(2) for them, because that could disturb goroutines that
// wait for other children. The remaining zombies vanish when this process ends.
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
			sig = unix.Signal(0) // SIGTERM is sent once; now only check who is alive
		}
		time.Sleep(orphanPause)
	}
}

// findOrphans returns the living children of this process that this process has not started. Two properties
// distinguish orphans: they are younger than the helper, and they have no pipe to this process. Programs that
// connect to other nodes do have such a pipe.
func findOrphans(helper startTime) []int {
	self := os.Getpid()
	ownPipes := pipesIn("/proc/self/fd")
	var found []int
	for _, p := range proc.Descendants(self) {
		parent, _, born := proc.ParentStateStart(p.PID)
		if p.Zombie || parent != self || born < helper {
			continue
		}
		if !ownPipes[proc.FileOf(p.PID, 0)] {
			found = append(found, p.PID)
		}
	}
	return found
}

// pipesIn returns the pipes and sockets that a process has open, such as "pipe:[4711]", except its standard streams.
// fds is the process's directory /proc/PID/fd.
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
