//go:build linux

package helper

import (
	"fmt"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/job"
)

// hint says what the node knows about the end of a rank, if there is evidence (REP-3).
func (s *session) hint(exit *job.Exit) string {
	switch unix.Signal(exit.Signal) {
	case unix.SIGKILL:
		if kills := probe.OOMKills(s.sys.Root); !exit.Asked && s.oomKills >= 0 && kills > s.oomKills {
			return "out of memory: the kernel has killed " + plural(kills-s.oomKills, "process", "processes") + " of its control group"
		}
	case unix.SIGBUS:
		return probe.FullShm("/dev/shm")
	}
	return ""
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "a " + one
	}
	return fmt.Sprint(n, " ", many)
}
