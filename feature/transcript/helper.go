//go:build linux

package transcript

import (
	"remshell/helper"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "transcript", Attach: attachHelper}) }

// attachHelper makes the session send the lines of PMI messages to mpiexec if --pmi-trace is given. Without the
// option, the PMI servers do not even format the lines.
func attachHelper(s *helper.Session) {
	s.Hooks.JobBegins.Add(func(m *wire.Prepare) {
		if _, wanted := wire.SettingOf[*Request](m.Settings); wanted {
			s.Hooks.PMILine.Add(func(r *helper.Rank, line string) { s.Send(&PMITrace{Rank: r.Number, Line: line}) })
		}
	})
}
