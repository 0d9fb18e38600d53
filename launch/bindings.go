package launch

import (
	"io"

	"remshell/launch/supervise"
	"remshell/launch/words"
	"remshell/wire"
)

// Bindings gather where the kernel has put each rank, and tell it in the order of the
// ranks as soon as that is known of all (DIAG-3). A nil one gathers nothing.
type bindings struct {
	w     io.Writer
	group int
	lines []string // by rank; empty: nothing was heard
	left  int      // ranks of which nothing was heard
}

func newBindings(w io.Writer, group, ranks int) *bindings {
	return &bindings{w, group, make([]string, ranks), ranks}
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
	if b == nil {
		return
	}
	for _, line := range b.lines {
		if line != "" {
			io.WriteString(b.w, line)
		}
	}
	b.lines = nil
}
