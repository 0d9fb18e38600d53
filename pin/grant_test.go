package pin

import (
	"slices"
	"strings"
	"testing"

	"remshell/idset"
)

// interleavedPackages has two packages of two cores each. The kernel numbers CPUs of both packages in
// turn, as on many machines: cores 0 and 2 are in package 0.
func interleavedPackages() Topology {
	return Topology{Cores: []Core{
		{CPUs: []int{0, 4}, CoreLocation: CoreLocation{NUMA: 0, Package: 0, L3: 0, L2: 0}},
		{CPUs: []int{1, 5}, CoreLocation: CoreLocation{NUMA: 1, Package: 1, L3: 1, L2: 1}},
		{CPUs: []int{2, 6}, CoreLocation: CoreLocation{NUMA: 0, Package: 0, L3: 0, L2: 2}},
		{CPUs: []int{3, 7}, CoreLocation: CoreLocation{NUMA: 1, Package: 1, L3: 1, L2: 3}},
	}}
}

// The CPUs that remain usable by a batch system's list, counted as that system counts.
func TestRestrictTo(t *testing.T) {
	half := interleavedPackages() // only the first two cores are in the mask
	for i := range half.Cores[2:] {
		c := &half.Cores[2+i]
		c.CPUs, c.Unusable = nil, c.CPUs
	}
	tests := []struct {
		name string
		of   Topology
		CPUGrant
		want string
	}{
		{"nothing is said", interleavedPackages(), CPUGrant{}, "0-7"},
		{"CPUs", interleavedPackages(), CPUGrant{CPUNumbers, "4-5,7", "L"}, "4-5,7"},
		{"tasks that share CPUs, in any order", interleavedPackages(), CPUGrant{CPUNumbers, "7,0-1,1,0", "L"}, "0-1,7"},
		{"some that are not there", interleavedPackages(), CPUGrant{CPUNumbers, "6-900", "L"}, "6-7"},
		{"some that the mask has not", half, CPUGrant{CPUNumbers, "1-2", "L"}, "1"},
		{"none that is there", interleavedPackages(), CPUGrant{CPUNumbers, "8-9", "L"}, "L grants the CPUs 8-9, but the kernel does not let mpiexec use any of them on this host"},
		{"none that the mask has", half, CPUGrant{CPUNumbers, "2,6", "L"}, "L grants the CPUs 2,6, but the kernel does not let mpiexec use any of them on this host"},
		{"more than any node has", interleavedPackages(), CPUGrant{CPUNumbers, "5-1048575,6-1048575", "L"}, "5-7"},
		{"no list", interleavedPackages(), CPUGrant{CPUNumbers, "x", "L"}, `L: "x" is not a list of numbers`},
		{"cores, package by package", interleavedPackages(), CPUGrant{CoreNumbers, "1", "F"}, "2,6"},
		{"cores of the other package", interleavedPackages(), CPUGrant{CoreNumbers, "2-3", "F"}, "1,3,5,7"},
		{"cores that are all there are", half, CPUGrant{CoreNumbers, "2-3", "F"}, "0-1,4-5"},
		{"no such core", interleavedPackages(), CPUGrant{CoreNumbers, "9", "F"}, "F grants the cores 9, but the kernel does not let mpiexec use any of them on this host"},
		{"a core in a socket", interleavedPackages(), CPUGrant{SocketCores, "1,0", "P"}, "1,5"},
		{"several", interleavedPackages(), CPUGrant{SocketCores, "0,1:1,1", "P"}, "2-3,6-7"},
		{"of several lines", interleavedPackages(), CPUGrant{SocketCores, "0,0:0,1,1,0", "P"}, "0-2,4-6"},
		{"no such socket", interleavedPackages(), CPUGrant{SocketCores, "2,0:0,2", "P"}, "P grants the cores (SOCKET,CORE) 2,0:0,2, but the kernel does not let mpiexec use any of them on this host"},
		{"no pairs", interleavedPackages(), CPUGrant{SocketCores, "0,0:1", "P"}, `P: "0,0:1" is not a list of pairs SOCKET,CORE`},
		{"not probed", Topology{}, CPUGrant{CPUNumbers, "3", "L"}, ""},
	}
	for _, test := range tests {
		before := slices.Clone(test.of.Cores)
		left, err := test.of.RestrictTo(test.CPUGrant)
		got := idset.Text(left.UsableCPUs())
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
		if !(Topology{before}).Equal(test.of) {
			t.Errorf("%s: what others share was changed", test.name)
		}
		for i, c := range left.Cores {
			if !slices.Equal(c.AllCPUs(), before[i].AllCPUs()) || c.CoreLocation != before[i].CoreLocation {
				t.Errorf("%s: core %d is %v now; what is not granted is shut", test.name, i, c)
			}
		}
		if again, err2 := left.RestrictTo(test.CPUGrant); err == nil && (err2 != nil || !again.Equal(left)) {
			t.Errorf("%s: the second time it leaves %v, %v", test.name, again.UsableCPUs(), err2)
		}
	}
}

// A list of any length gives a readable message.
func TestRestrictToLongLists(t *testing.T) {
	_, err := interleavedPackages().RestrictTo(CPUGrant{CPUNumbers, strings.Repeat("9,", 1000) + "9", "L"})
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("%v", err)
	}
}

// For any list the result has no CPU that was not usable before, and nothing panics.
func FuzzRestrictTo(f *testing.F) {
	for _, list := range []string{"0-3", "1,0:1,1", "9", "7,0-1,1,0", "-", "1-", ":", "0-99999999999999999999"} {
		for by := range 3 {
			f.Add(list, by)
		}
	}
	f.Fuzz(func(t *testing.T, list string, by int) {
		whole := interleavedPackages()
		left, err := whole.RestrictTo(CPUGrant{GrantNumbering(by), list, "L"})
		cpus := left.UsableCPUs()
		if len(cpus) == 0 || !idset.Set(whole.UsableCPUs()).HasAll(cpus) {
			t.Errorf("%q leaves %v, %v", list, cpus, err)
		}
	})
}
