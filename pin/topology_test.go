package pin

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
)

// tree makes a sysfs tree from the sibling list of every CPU.
func tree(siblings ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for cpu, list := range siblings {
		name := fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)
		fsys[name] = &fstest.MapFile{Data: []byte(list + "\n")}
	}
	return fsys
}

func TestReadTopology(t *testing.T) {
	smt := tree("0,2", "1,3", "0,2", "1,3")
	whole := tree("0,2", "1,3", "0,2", "1,3")
	whole["devices/system/cpu/online"] = &fstest.MapFile{Data: []byte("0-3\n")}
	whole["devices/system/node/node0/cpulist"] = &fstest.MapFile{Data: []byte("0,2\n")}
	whole["devices/system/node/node1/cpulist"] = &fstest.MapFile{Data: []byte("1,3\n")}
	tests := []struct {
		name    string
		fsys    fstest.MapFS
		allowed []int
		want    string
	}{
		{"cores with two threads", smt, []int{0, 1, 2, 3}, "[{[0 2] [] -1} {[1 3] [] -1}]"},
		{"one thread of a core allowed", smt, []int{1, 2, 3}, "[{[1 3] [] -1} {[2] [] -1}]"},
		{"no topology files", tree(), []int{4, 7}, "[{[4] [] -1} {[7] [] -1}]"},
		{"a core outside of the cpuset", whole, []int{3, 1}, "[{[] [0 2] 0} {[1 3] [] 1}]"},
		{"nothing allowed", smt, nil, "[]"},
	}
	for _, test := range tests {
		got, err := ReadTopology(test.fsys, test.allowed)
		if err != nil || fmt.Sprint(got.Cores) != test.want {
			t.Errorf("%s: ReadTopology(%v) = %v, %v; want %s", test.name, test.allowed, got.Cores, err, test.want)
		}
	}
	if _, err := ReadTopology(tree("0-x"), []int{0}); err == nil {
		t.Error("ReadTopology of a broken sibling list: no error")
	}
}

func TestParseCPUs(t *testing.T) {
	tests := []struct {
		list string
		want []int
		ok   bool
	}{
		{"", nil, true},
		{"0", []int{0}, true},
		{"0-3,8", []int{0, 1, 2, 3, 8}, true},
		{"3-0", nil, false},
		{"-1", nil, false},
		{"1,", nil, false},
		{"0-99999999", nil, false},
		{"a", nil, false},
	}
	for _, test := range tests {
		got, err := ParseCPUs(test.list)
		if (err == nil) != test.ok || test.ok && !slices.Equal(got, test.want) {
			t.Errorf("ParseCPUs(%q) = %v, %v; want %v, ok %v", test.list, got, err, test.want, test.ok)
		}
	}
}
