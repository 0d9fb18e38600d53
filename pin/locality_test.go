package pin_test

import (
	"testing"

	"remshell/pin"
	"remshell/test/pintest"
)

// The locality agrees with hwloc 2.9 on captured nodes, taken with hwloc-calc for one CPU at a time. hwloc
// makes a package of each core of the POWER node, where packages are unknown; here they are left out.
func TestLocality(t *testing.T) {
	for _, test := range []struct {
		node string
		cpus []int
		want string
	}{
		{"vm-2", []int{0}, "SK0:L30:L20:L10:CR0:HT0:NM0"}, // mpirun prints the same
		{"vm-2", []int{1}, "SK0:L30:L21:L11:CR1:HT1:NM0"},
		{"vm-2", []int{0, 1}, "SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0"},
		{"xeon-32", []int{5}, "SK0:L30:L25:L15:CR5:HT10:NM0"},
		{"xeon-32", []int{17}, "SK0:L30:L21:L11:CR1:HT3:NM0"},
		{"xeon-32", []int{1, 8, 17}, "SK0-1:L30-1:L21,8:L11,8:CR1,8:HT2-3,16:NM0-1"},
		{"kunpeng-128", []int{17}, "SK0:L30:L217:L117:CR17:HT17:NM0"},
		{"power-256", []int{17}, "L34:L24:L14:CR4:HT17:NM0"},
		{"hybrid-22", []int{17}, "SK0:L30:L27:L111:CR11:HT17:NM0"},
		{"vm-2", nil, ""},
	} {
		if got := pintest.CapturedTopology(t, "../testdata/nodes", test.node, "").Locality(test.cpus); got != test.want {
			t.Errorf("%s, CPUs %v: %s, want %s", test.node, test.cpus, got, test.want)
		}
	}
}

// If the kernel numbers CPUs of two packages in turn, logical indexes go through one package first.
// Packages without caches have none in the text.
func TestLocalityOfInterleavedPackages(t *testing.T) {
	var top pin.Topology
	for cpu := range 4 {
		top.Cores = append(top.Cores, pin.Core{CPUs: []int{cpu}, CoreLocation: pin.CoreLocation{Package: cpu % 2, NUMA: 1 - cpu%2, L3: -1, L2: -1}})
	}
	for cpu, want := range []string{"SK0:L10:CR0:HT0:NM0", "SK1:L12:CR2:HT2:NM1", "SK0:L11:CR1:HT1:NM0", "SK1:L13:CR3:HT3:NM1"} {
		if got := top.Locality([]int{cpu}); got != want {
			t.Errorf("CPU %d: %s, want %s", cpu, got, want)
		}
	}
	if got, want := top.Locality([]int{0, 2}), "SK0:L10-1:CR0-1:HT0-1:NM0"; got != want {
		t.Errorf("package 0: %s, want %s", got, want)
	}
}
