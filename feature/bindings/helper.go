//go:build linux

package bindings

import (
	"remshell/helper"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "bindings", Attach: attachHelper}) }

// attachHelper makes the session report, in the Started message of each rank, to which CPUs and memory the kernel has
// bound the rank.
func attachHelper(s *helper.Session) {
	wanted := false
	s.Hooks.JobBegins.Add(func(m *wire.Prepare) { _, wanted = wire.SettingOf[*Request](m.Settings) })
	s.Hooks.RankStarted.Add(func(r *helper.Rank, m *wire.Started) {
		if wanted {
			m.CPUs, m.Mems = r.Child.CPUs, r.Child.Mems
		}
	})
}
