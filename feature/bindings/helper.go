//go:build linux

package bindings

import (
	"remshell/helper"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "bindings", Attach: attachHelper}) }

// attachHelper makes the session add the CPUs and memory to which the kernel has bound a rank to the rank's Started
// message.
func attachHelper(s *helper.Session) {
	wanted := false
	s.Hooks.JobBegins.Add(func(m *wire.Prepare) { _, wanted = wire.SettingOf[*Request](m.Settings) })
	s.Hooks.RankStarted.Add(func(r *helper.Rank, m *wire.Started) {
		if wanted {
			m.CPUs, m.Mems = r.Child.CPUs, r.Child.Mems
		}
	})
}
