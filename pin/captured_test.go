package pin_test

import (
	"fmt"
	"slices"
	"testing"

	"remshell/pin"
	"remshell/test/pintest"
)

// The topology of captured nodes agrees with hwloc (tests/hwloc/linux/*.output there), with two
// exceptions. hwloc treats a module of an Opteron as two cores, the kernel as one core with two threads.
// hwloc makes a package of each core if packages are unknown.
func TestCapturedNodes(t *testing.T) {
	for _, test := range []struct {
		name string
		want string // CPUs, cores, packages, NUMA nodes, L3, L2, efficient cores
	}{
		{"vm-2", "2 2 1 1 1 2 0"},
		{"xeon-32", "32 16 2 2 2 16 0"},
		{"opteron-64", "64 32 4 8 8 32 0"},
		{"kunpeng-128", "128 128 2 4 4 128 0"},
		{"power-256", "256 64 0 8 64 64 0"},
		{"hybrid-22", "22 16 1 1 1 9 10"},
	} {
		cores := pintest.CapturedTopology(t, "../testdata/nodes", test.name, "").Cores
		cpus, efficient := 0, 0
		for _, c := range cores {
			cpus += len(c.CPUs) + len(c.Unusable)
			if c.Kind == pin.Efficiency {
				efficient++
			}
		}
		distinct := func(of func(pin.Core) int) int {
			var numbers []int
			for _, c := range cores {
				if n := of(c); n >= 0 {
					numbers = append(numbers, n)
				}
			}
			slices.Sort(numbers)
			return len(slices.Compact(numbers))
		}
		got := fmt.Sprint(cpus, " ", len(cores), " ", distinct(func(c pin.Core) int { return c.Package }), " ",
			distinct(func(c pin.Core) int { return c.NUMA }), " ", distinct(func(c pin.Core) int { return c.L3 }), " ",
			distinct(func(c pin.Core) int { return c.L2 }), " ", efficient)
		if got != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
	}
}
