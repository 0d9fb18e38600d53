package launch

import (
	"strings"

	"remshell/launch/supervise"
	"remshell/launch/words"
	"remshell/wire"
)

// Bindings gather where the kernel has put each rank, and tell it in the order of the
// ranks as soon as that is known of all (DIAG-3). A nil one gathers nothing.
type bindingReport struct {
	report  func(text string) // takes all lines, once; nil: it has
	group   int
	lines   []string // by rank; empty: nothing was heard
	missing int      // ranks of which nothing was heard
}

func newBindingReport(told func(text string), group, ranks int) *bindingReport {
	return &bindingReport{told, group, make([]string, ranks), ranks}
}

// addRank takes the news that a rank of the group runs, or cannot.
func (b *bindingReport) addRank(n *jobNode, rank int, m *wire.Started) {
	if b == nil || rank >= len(b.lines) {
		return
	}
	if m.Err == "" {
		b.lines[rank] = words.FormatBinding(supervise.FormatRank(b.group, rank), n.Name(), n.Probe.Topology, m.CPUs, m.Mems)
	}
	if b.missing--; b.missing == 0 {
		b.reportNow()
	}
}

// reportNow writes what was heard, once.
func (b *bindingReport) reportNow() {
	if b == nil || b.report == nil {
		return
	}
	b.report(strings.Join(b.lines, ""))
	b.report, b.lines = nil, nil
}
