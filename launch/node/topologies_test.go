package node

import (
	"reflect"
	"testing"

	"remshell/pin"
)

// nodeOf returns a topology with so many cores. If separate is set, the last core is in a package of its
// own.
func nodeOf(cores int, separate bool) (t pin.Topology) {
	for i := range cores {
		t.Cores = append(t.Cores, pin.Core{CPUs: []int{2 * i, 2*i + 1}, CoreLocation: pin.CoreLocation{L2: i}})
	}
	if separate {
		t.Cores[cores-1].Package = 1
	}
	return t
}

// Equal topologies are stored once, up to maxTopologies; each node still gets its own topology.
func TestEqualTopologiesAreHeldOnce(t *testing.T) {
	same := func(a, b pin.Topology) bool { return &a.Cores[0] == &b.Cores[0] }
	var all Topologies
	four := all.intern(nodeOf(4, false))
	if !same(all.intern(nodeOf(4, false)), four) {
		t.Error("two nodes with equal topologies have a copy each")
	}
	for cores := 1; cores < 2*maxTopologies; cores++ {
		for _, separate := range []bool{false, true} {
			want := nodeOf(cores, separate)
			if got := all.intern(nodeOf(cores, separate)); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	if len(all.known) != maxTopologies {
		t.Errorf("%d are stored, want %d", len(all.known), maxTopologies)
	}
	if !same(all.intern(nodeOf(4, false)), four) {
		t.Error("the first node's topology is not stored any more")
	}
	if none := (*Topologies)(nil); !reflect.DeepEqual(none.intern(four), four) {
		t.Error("a nil *Topologies has changed it")
	}
}
