package launch

import (
	"strings"

	"remshell/launch/supervise"
	"remshell/wire"
)

// A bindingReport collects the CPUs that the kernel gave each rank. It reports them in the order of
// ranks as soon as all are known (DIAG-3). A nil bindingReport does nothing.
type bindingReport struct {
	report  func(text string) // receives all lines, once; nil afterwards
	group   int
	lines   []string // by rank; empty: unknown
	missing int      // ranks that have not reported yet
}

func newBindingReport(report func(text string), group, ranks int) *bindingReport {
	return &bindingReport{report, group, make([]string, ranks), ranks}
}

// addRank adds a rank of the group that runs, or could not be started.
func (b *bindingReport) addRank(n *Node, rank int, m *wire.Started) {
	if b == nil || rank >= len(b.lines) {
		return
	}
	if m.Err == "" {
		b.lines[rank] = formatBinding(supervise.FormatRank(b.group, rank), n.Name(), n.Probe.Topology, m.CPUs, m.Mems)
	}
	if b.missing--; b.missing == 0 {
		b.reportNow()
	}
}

// reportNow reports what is known, once.
func (b *bindingReport) reportNow() {
	if b == nil || b.report == nil {
		return
	}
	b.report(strings.Join(b.lines, ""))
	b.report, b.lines = nil, nil
}
