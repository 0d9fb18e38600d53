package launch

import (
	"fmt"
	"io"

	"remshell/idset"
	"remshell/launch/supervise"
	"remshell/pin"
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
		b.lines[rank] = bindingLine(supervise.Numbered(b.group, rank), n.Name(), n.Probe.Topology, m.CPUs, m.Mems)
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

// bindingLine says to what a rank is bound: "rank 3 node01 package 0 core 3 [...B|....]".
// Memory is told where the node has a choice of it.
func bindingLine(rank, node string, t pin.Topology, cpus, mems []int) string {
	text := fmt.Sprintf("rank %s %s", rank, node)
	if cpus == nil {
		text += " not bound"
	} else {
		text += " " + t.Describe(cpus)
	}
	if len(mems) > 0 && t.Memories() > 1 {
		text += " memory " + idset.Text(mems)
	}
	return text + "\n"
}
