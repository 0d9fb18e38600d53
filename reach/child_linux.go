package reach

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
	orphanGrace    = time.Second
	orphanPatience = 10 * time.Second
	orphanPause    = 5 * time.Millisecond
)

func adopt() error { return proc.Adopt() }

// runningProgram is this program also after its file was replaced.
func runningProgram() (string, error) { return "/proc/self/exe", nil }

// sinceNow returns what says whether the kernel has killed processes from now on because memory was short.
func sinceNow() (outOfMemory func() string) {
	root := os.DirFS("/")
	before := make(chan proc.Denials, 1)
	go func() { before <- proc.Denied(root) }() // nobody waits for it
	return func() string {
		since := <-before
		before <- since
		return since.OutOfMemory(root)
	}
}

// A birth is when a process was started.
type birth = proc.Birth

// birthOf is 0 when the process is gone.
func birthOf(pid int) birth {
	_, _, born := proc.Stat(pid)
	return born
}

// endOrphans ends what a killed helper has left to us: SIGTERM, grace, SIGKILL. It
// reaps nothing, since other goroutines wait for children of their own; the zombies
// go with us.
func endOrphans(helper birth) {
	start := time.Now()
	sig := unix.SIGTERM
	for time.Since(start) < orphanGrace+orphanPatience {
		alive := 0
		for _, pid := range orphans(helper) {
			for _, p := range append(proc.Below(pid), proc.Process{PID: pid}) {
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

// orphans lists the living children that we have not started ourselves: they are
// younger than the helper, and hold no pipe to us as the programs do through which
// we reach other nodes.
func orphans(helper birth) []int {
	us := os.Getpid()
	ours := pipesOf("/proc/self/fd")
	var found []int
	for _, p := range proc.Below(us) {
		parent, _, born := proc.Stat(p.PID)
		if p.Zombie || parent != us || born < helper {
			continue
		}
		if stdin, _ := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/fd/0"); !ours[stdin] {
			found = append(found, p.PID)
		}
	}
	return found
}

// pipesOf names the pipes and sockets of a process, but for its standard streams.
func pipesOf(fds string) map[string]bool {
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
