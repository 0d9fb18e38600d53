package job

import (
	"fmt"
	"strings"

	"remshell/pin"
)

// UsableCPUs says how many CPUs of a node ranks may use, and which settings exclude the others. A CPU is a
// core, or a hardware thread on nodes where hardware threads count as CPUs.
type UsableCPUs struct {
	Usable, Total int
	Unit          string   // "core" or "hardware thread"
	ReducedBy     []string // "the CPU mask or cpuset", "reserve=1"; empty: all are usable
}

// UsableCPUs returns the number of the machine's CPUs that ranks may use. It ignores the number of slots that the
// user has given for the node. reserve is the number of CPUs that the job leaves free on each node
// (--reserve-cpus).
func (n Node) UsableCPUs(reserve int) UsableCPUs {
	b := UsableCPUs{Unit: "core"}
	if n.CountThreads || n.CountedHWThreads != 0 {
		b.Unit = "hardware thread"
	}
	whole := n.Topology.AllUsable()
	b.Total = n.countUnits(whole)
	b.Usable = b.Total
	limit := func(left int, by string, args ...any) {
		if left < b.Usable {
			b.Usable, b.ReducedBy = left, append(b.ReducedBy, fmt.Sprintf(by, args...))
		}
	}
	if granted, err := whole.RestrictTo(n.GrantedCPUs); err == nil {
		limit(n.countUnits(granted), "%s", n.GrantedCPUs.From)
	}
	limit(n.countUnits(n.Topology), "the CPU mask or cpuset")
	if reserve >= n.Reserve {
		limit(max(0, b.Usable-reserve), "--reserve-cpus %d", reserve)
	} else {
		limit(max(0, b.Usable-n.Reserve), "reserve=%d", n.Reserve)
	}
	if n.CPUQuota > 0 {
		limit(n.CPUQuota, "the CPU quota")
	}
	return b
}

// String returns a clause such as "the CPU mask or cpuset and reserve=1 leave 2 of 4 cores". It returns "" if ranks
// may use all CPUs.
func (b UsableCPUs) String() string {
	verb := "leaves"
	switch len(b.ReducedBy) {
	case 0:
		return ""
	case 1:
	default:
		verb = "leave"
	}
	return fmt.Sprintf("%s %s %d of %d %ss", strings.Join(b.ReducedBy, " and "), verb, b.Usable, b.Total, b.Unit)
}

// countUnits returns the number of CPUs that t has on this node: its cores or, if hardware threads count as CPUs, these
// threads.
func (n Node) countUnits(t pin.Topology) int {
	if n.CountedHWThreads != 0 && !n.CountThreads {
		return t.CountUnitsPerCore(n.CountedHWThreads)
	}
	return t.CountUnits(n.CountThreads)
}
