package launch

import (
	"strings"

	"remshell/launch/supervise"
	"remshell/launch/words"
	"remshell/wire"
)

// Bindings gather where the kernel has put each rank, and tell it in the order of the
// ranks as soon as that is known of all (DIAG-3). A nil one gathers nothing.
type bindings struct {
	told  func(text string) // takes all lines, once; nil: it has
	group int
	lines []string // by rank; empty: nothing was heard
	left  int      // ranks of which nothing was heard
}

func newBindings(told func(text string), group, ranks int) *bindings {
	return &bindings{told, group, make([]string, ranks), ranks}
}

// note takes the news that a rank of the group runs, or cannot.
func (b *bindings) note(n *member, rank int, m *wire.Started) {
	if b == nil || rank >= len(b.lines) {
		return
	}
	if m.Err == "" {
		b.lines[rank] = words.Binding(supervise.Numbered(b.group, rank), n.Name(), n.Probe.Topology, m.CPUs, m.Mems)
	}
	if b.left--; b.left == 0 {
		b.tell()
	}
}

// tell writes what was heard, once.
func (b *bindings) tell() {
	if b == nil || b.told == nil {
		return
	}
	b.told(strings.Join(b.lines, ""))
	b.told, b.lines = nil, nil
}
