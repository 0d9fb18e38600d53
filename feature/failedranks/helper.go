//go:build linux

package failedranks

import (
	"golang.org/x/sys/unix"

	"remshell/helper"
	"remshell/proc"
)

func init() { helper.Register(helper.Feature{Name: "failed ranks", Attach: attachHelper}) }

// attachHelper makes the session pass the list of failed ranks to the PMI server of their group, and send SIGUSR1 to
// the other ranks of the group. The session sends it only to ranks that handle or ignore the signal, because the
// signal would kill any other rank.
func attachHelper(s *helper.Session) {
	helper.Handle(s, func(m *FailedRanks) {
		g := s.GroupNamed(m.Group)
		if g == nil {
			return
		}
		g.SetDeadRanks(m.Ranks)
		for _, r := range g.AliveRanks() {
			if proc.CatchesOrIgnores(r.Child.PID, unix.SIGUSR1) {
				unix.Kill(r.Child.PID, unix.SIGUSR1)
			}
		}
	})
}
