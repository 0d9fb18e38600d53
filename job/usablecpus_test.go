package job

import (
	"testing"

	"remshell/pin"
)

// The text names every reason why CPUs are not usable.
func TestUsableCPUsNamesReasons(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*Node)
		reserve int
		left    int
		want    string
	}{
		{"nothing", func(*Node) {}, 0, 4, ""},
		{"a mask", func(n *Node) { shut(n, 3) }, 0, 3, "the CPU mask or cpuset leaves 3 of 4 cores"},
		{"the cluster file", func(n *Node) { n.Reserve = 1 }, 0, 3, "reserve=1 leaves 3 of 4 cores"},
		{"an option", func(n *Node) {}, 1, 3, "--reserve-cpus 1 leaves 3 of 4 cores"},
		{"the cluster file more than an option", func(n *Node) { n.Reserve = 2 }, 1, 2, "reserve=2 leaves 2 of 4 cores"},
		{"an option more than the cluster file", func(n *Node) { n.Reserve = 1 }, 2, 2, "--reserve-cpus 2 leaves 2 of 4 cores"},
		{"all of them", func(n *Node) { n.Reserve = 9 }, 0, 0, "reserve=9 leaves 0 of 4 cores"},
		{"a quota", func(n *Node) { n.CPUQuota = 2 }, 0, 2, "the CPU quota leaves 2 of 4 cores"},
		{"a quota that bounds nothing", func(n *Node) { n.CPUQuota, n.Reserve = 3, 2 }, 0, 2, "reserve=2 leaves 2 of 4 cores"},
		{"a batch system's list", func(n *Node) { granted(n, "0-1") }, 0, 2, "LSB_BIND_CPU_LIST leaves 2 of 4 cores"},
		{"a list, a mask, the cluster file and a quota", func(n *Node) { n.Reserve, n.CPUQuota = 1, 1; shut(n, 0); granted(n, "0-3") }, 0, 1,
			"the CPU mask or cpuset and reserve=1 and the CPU quota leave 1 of 4 cores"},
		{"a list within a mask", func(n *Node) { shut(n, 0); granted(n, "0-2") }, 0, 2, "LSB_BIND_CPU_LIST and the CPU mask or cpuset leave 2 of 4 cores"},
		{"hardware threads", func(n *Node) { n.CountThreads, n.Reserve = true, 1 }, 0, 3, "reserve=1 leaves 3 of 4 hardware threads"},
	} {
		n := Node{}
		for cpu := range 4 {
			n.Topology.Cores = append(n.Topology.Cores, pin.Core{CPUs: []int{cpu}, CoreLocation: pin.UnknownLocation})
		}
		test.change(&n)
		b := n.UsableCPUs(test.reserve)
		if b.Usable != test.left || b.String() != test.want {
			t.Errorf("%s: %d, %q; want %d, %q", test.name, b.Usable, b, test.left, test.want)
		}
		if n.Reserve = max(n.Reserve, test.reserve); n.CPUs() != b.Usable {
			t.Errorf("%s: %d CPUs, and %d are left", test.name, n.CPUs(), b.Usable)
		}
	}
}

// shut makes a CPU unusable, as an affinity mask does.
func shut(n *Node, cpu int) {
	c := &n.Topology.Cores[cpu]
	c.CPUs, c.Unusable = nil, []int{cpu}
}

// granted restricts the node to the CPUs of a list, as launch/reserve does.
func granted(n *Node, list string) {
	n.GrantedCPUs = pin.CPUGrant{List: list, From: "LSB_BIND_CPU_LIST"}
	n.Topology, _ = n.Topology.RestrictTo(n.GrantedCPUs)
}
