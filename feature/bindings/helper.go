//go:build linux

package bindings

import (
	"remshell/helper"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "bindings", Attach: attachHelper}) }

// attachHelper makes the session add to a rank's Started message the CPUs and memory to which the kernel has bound the
// rank.
func attachHelper(s *helper.Session) {
	wanted := false
	s.Hooks.JobBegins.Add(func(m *wire.Prepare) { _, wanted = wire.SettingOf[*Request](m.Settings) })
	s.Hooks.RankStarted.Add(func(r *helper.Rank, m *wire.Started) {
		if wanted {
			m.CPUs, m.Mems = r.Child.CPUs, r.Child.Mems
		}
	})
}
