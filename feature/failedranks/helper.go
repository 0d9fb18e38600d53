//go:build linux

package failedranks

import (
	"golang.org/x/sys/unix"

	"remshell/helper"
	"remshell/proc"
)

func init() { helper.Register(helper.Feature{Name: "failed ranks", Attach: attachHelper}) }

// attachHelper makes the session report to the ranks of a group which other ranks have failed. It sends SIGUSR1 only
// to ranks that handle or ignore the signal, because it would kill any other rank.
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
