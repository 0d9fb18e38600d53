package node

import (
	"reflect"
	"testing"

	"remshell/pin"
)

// nodeOf has so many cores, of which the last is in a package of its own if apart.
func nodeOf(cores int, apart bool) (t pin.Topology) {
	for i := range cores {
		t.Cores = append(t.Cores, pin.Core{CPUs: []int{2 * i, 2*i + 1}, CoreLocation: pin.CoreLocation{L2: i}})
	}
	if apart {
		t.Cores[cores-1].Package = 1
	}
	return t
}

// Equal topologies are held once, as long as there are not too many of them; each node has its own.
func TestEqualTopologiesAreHeldOnce(t *testing.T) {
	same := func(a, b pin.Topology) bool { return &a.Cores[0] == &b.Cores[0] }
	var all Topologies
	four := all.intern(nodeOf(4, false))
	if !same(all.intern(nodeOf(4, false)), four) {
		t.Error("two nodes that are alike have a topology each")
	}
	for cores := 1; cores < 2*maxTopologies; cores++ {
		for _, apart := range []bool{false, true} {
			want := nodeOf(cores, apart)
			if got := all.intern(nodeOf(cores, apart)); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	if len(all.known) != maxTopologies {
		t.Errorf("%d are held, want %d", len(all.known), maxTopologies)
	}
	if !same(all.intern(nodeOf(4, false)), four) {
		t.Error("that of the first node is not held any more")
	}
	if none := (*Topologies)(nil); !reflect.DeepEqual(none.intern(four), four) {
		t.Error("who holds nothing has changed it")
	}
}
