package job

import (
	"fmt"
	"strings"

	"remshell/pin"
)

// Bounds are how many of a node's cores, or hardware threads if these count, ranks may have, and what keeps them from the
// others.
type Bounds struct {
	Left, All int
	Unit      string   // "core" or "hardware thread"
	By        []string // "the CPU mask or cpuset", "reserve=1"; empty: all are left
}

// Bounds are those of the node as a machine, whatever slots were written down for it. reserve is what the job leaves free
// on each node (--reserve-cpus).
func (n Node) Bounds(reserve int) Bounds {
	b := Bounds{Unit: "core"}
	if n.CountThreads || n.Threads != 0 {
		b.Unit = "hardware thread"
	}
	whole := n.Topology.Whole()
	b.All = n.units(whole)
	b.Left = b.All
	limit := func(left int, by string, args ...any) {
		if left < b.Left {
			b.Left, b.By = left, append(b.By, fmt.Sprintf(by, args...))
		}
	}
	if granted, err := whole.Within(n.Grant); err == nil {
		limit(n.units(granted), "%s", n.Grant.From)
	}
	limit(n.units(n.Topology), "the CPU mask or cpuset")
	if reserve >= n.Reserve {
		limit(max(0, b.Left-reserve), "--reserve-cpus %d", reserve)
	} else {
		limit(max(0, b.Left-n.Reserve), "reserve=%d", n.Reserve)
	}
	if n.Quota > 0 {
		limit(n.Quota, "the CPU quota")
	}
	return b
}

// String is a clause: "the CPU mask or cpuset and reserve=1 leave 2 of 4 cores". It is empty if all are left.
func (b Bounds) String() string {
	verb := "leaves"
	switch len(b.By) {
	case 0:
		return ""
	case 1:
	default:
		verb = "leave"
	}
	return fmt.Sprintf("%s %s %d of %d %ss", strings.Join(b.By, " and "), verb, b.Left, b.All, b.Unit)
}

// units counts what slots of the node stand for, in a topology of it.
func (n Node) units(t pin.Topology) int {
	if n.Threads != 0 && !n.CountThreads {
		return t.CountOf(n.Threads)
	}
	return t.Count(n.CountThreads)
}
