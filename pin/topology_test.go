package pin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sysfs makes a tree from lines of path and content. Paths are below devices/system. "*" in a path stands
// for each of CPUs 0 to 3, and in the content for its number.
func sysfs(lines ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, line := range lines {
		name, content, _ := strings.Cut(line, " ")
		for cpu := range 4 {
			number := fmt.Sprint(cpu)
			name, content := strings.ReplaceAll(name, "*", number), strings.ReplaceAll(content, "*", number)
			fsys["devices/system/"+name] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
	}
	return fsys
}

// coresText formats a core: CPUs, unusable CPUs, NUMA node, package, L3, L2 and kind.
func coresText(cores []Core) string {
	var b strings.Builder
	for _, c := range cores {
		fmt.Fprintf(&b, "%v%v n%d p%d %d %d %.1s; ", c.CPUs, c.Unusable, c.NUMA, c.Package, c.L3, c.L2, c.Kind)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func concat(lists ...[]string) []string { return slices.Concat(lists...) }

var (
	smt = []string{
		"cpu/cpu0/topology/thread_siblings_list 0,2", "cpu/cpu2/topology/thread_siblings_list 0,2",
		"cpu/cpu1/topology/thread_siblings_list 1,3", "cpu/cpu3/topology/thread_siblings_list 1,3",
	}
	online  = []string{"cpu/online 0-3"}
	sockets = []string{
		"cpu/cpu0/topology/core_siblings_list 0,2", "cpu/cpu0/topology/physical_package_id 4",
		"cpu/cpu1/topology/core_siblings_list 1,3", "cpu/cpu1/topology/physical_package_id 0",
	}
	numa   = []string{"node/online 0,8", "node/node0/cpulist 0,2", "node/node8/cpulist 1,3"}
	caches = []string{
		"cpu/cpu*/cache/index0/level 1", "cpu/cpu*/cache/index1/level 2", "cpu/cpu*/cache/index1/type Instruction",
		"cpu/cpu*/cache/index2/level 2", "cpu/cpu*/cache/index2/type Unified", "cpu/cpu*/cache/index3/level 3",
	}
)

func TestReadTopology(t *testing.T) {
	tests := []struct {
		name    string
		lines   []string
		allowed []int
		want    string
	}{
		{"cores with two threads", smt, []int{0, 1, 2, 3}, "[0 2][] n-1 p-1 -1 -1 ; [1 3][] n-1 p-1 -1 -1 "},
		{"one thread of a core allowed", smt, []int{1, 2, 3}, "[1 3][] n-1 p-1 -1 -1 ; [2][] n-1 p-1 -1 -1 "},
		{"a NUL behind each line", []string{"cpu/online 0-1\n\x00", "cpu/cpu*/topology/thread_siblings_list 0-1\n\x00"}, []int{0, 1}, "[0 1][] n-1 p-1 -1 -1 "},
		{"no topology files", nil, []int{4, 7}, "[4][] n-1 p-1 -1 -1 ; [7][] n-1 p-1 -1 -1 "},
		{"a core outside of the cpuset", concat(smt, online, numa), []int{3, 1}, "[][0 2] n0 p-1 -1 -1 ; [1 3][] n8 p-1 -1 -1 "},
		{"nothing allowed", smt, nil, ""},
		{"two packages", concat(smt, online, sockets), []int{0, 1, 2, 3}, "[0 2][] n-1 p4 -1 -1 ; [1 3][] n-1 p0 -1 -1 "},
		{"packages by number alone", concat(smt, online, []string{"cpu/cpu*/topology/physical_package_id *"}), []int{0, 1, 2, 3},
			"[0 2][] n-1 p0 -1 -1 ; [1 3][] n-1 p1 -1 -1 "},
		{"packages that the firmware does not tell", concat(smt, online, []string{"cpu/cpu*/topology/physical_package_id -1"}), []int{0, 1, 2, 3},
			"[0 2][] n-1 p-1 -1 -1 ; [1 3][] n-1 p-1 -1 -1 "},
		{"one L3, each core its own L2", concat(smt, online, caches, []string{"cpu/cpu0/cache/index2/shared_cpu_list 0,2", "cpu/cpu0/cache/index3/shared_cpu_list 0-3"}),
			[]int{0, 1, 2, 3}, "[0 2][] n-1 p-1 0 0 ; [1 3][] n-1 p-1 0 1 "},
		{"one L2 of two cores, no L3", concat(online, caches[:5], []string{"cpu/cpu0/cache/index2/shared_cpu_list 0-1", "cpu/cpu2/cache/index2/shared_cpu_list 2-3"}),
			[]int{0, 1, 2, 3}, "[0][] n-1 p-1 -1 0 ; [1][] n-1 p-1 -1 0 ; [2][] n-1 p-1 -1 1 ; [3][] n-1 p-1 -1 1 "},
		{"a broken list of sharers", concat(online, caches, []string{"cpu/cpu*/cache/index3/shared_cpu_list 0-x"}), []int{0, 1},
			"[0][] n-1 p-1 -1 -1 ; [1][] n-1 p-1 -1 -1 ; [][2] n-1 p-1 -1 -1 ; [][3] n-1 p-1 -1 -1 "},
		{"capacities that differ by little", concat(online, []string{"cpu/cpu*/cpu_capacity 102*"}), []int{0, 1},
			"[0][] n-1 p-1 -1 -1 ; [1][] n-1 p-1 -1 -1 ; [][2] n-1 p-1 -1 -1 ; [][3] n-1 p-1 -1 -1 "},
		{"big and little", concat(online, []string{"cpu/cpu*/cpu_capacity 446", "cpu/cpu3/cpu_capacity 1024", "cpu/cpu2/cpu_capacity 871"}), []int{0, 1, 2, 3},
			"[0][] n-1 p-1 -1 -1 e; [1][] n-1 p-1 -1 -1 e; [2][] n-1 p-1 -1 -1 p; [3][] n-1 p-1 -1 -1 p"},
	}
	for _, test := range tests {
		got, err := ReadTopology(sysfs(test.lines...), test.allowed)
		if err != nil || coresText(got.Cores) != test.want {
			t.Errorf("%s: ReadTopology(%v) =\n%s, %v; want\n%s", test.name, test.allowed, coresText(got.Cores), err, test.want)
		}
	}
	for _, broken := range []string{"cpu/cpu0/topology/thread_siblings_list 0-x", "node/node0/cpulist 1-0"} {
		if _, err := ReadTopology(sysfs("node/online 0", broken), []int{0}); err == nil {
			t.Errorf("ReadTopology with %s: no error", broken)
		}
	}
}

// Intel's hybrid processors: fast cores have two threads, the others share an L2, and those of the
// low-power island have no L3.
func TestReadHybrid(t *testing.T) {
	fsys := sysfs("cpu/online 0-7", "cpu/cpu0/topology/thread_siblings_list 0-1",
		"cpu/cpu0/cache/index0/level 2", "cpu/cpu0/cache/index0/shared_cpu_list 0-1",
		"cpu/cpu0/cache/index1/level 3", "cpu/cpu0/cache/index1/shared_cpu_list 0-5",
		"cpu/cpu2/cache/index0/level 2", "cpu/cpu2/cache/index0/shared_cpu_list 2-5",
		"cpu/cpu2/cache/index1/level 3", "cpu/cpu2/cache/index1/shared_cpu_list 0-5",
		"cpu/cpu6/cache/index0/level 2", "cpu/cpu6/cache/index0/shared_cpu_list 6-7")
	for name, kind := range map[string]string{"core": "0-1", "atom": "2-5", "lowpower": "6-7"} {
		fsys["devices/cpu_"+name+"/cpus"] = &fstest.MapFile{Data: []byte(kind + "\n")}
	}
	got, err := ReadTopology(fsys, []int{0, 1, 2, 3, 4, 5, 6, 7})
	const want = "[0 1][] n-1 p-1 0 0 p; [2][] n-1 p-1 0 1 e; [3][] n-1 p-1 0 1 e; [4][] n-1 p-1 0 1 e; " +
		"[5][] n-1 p-1 0 1 e; [6][] n-1 p-1 -1 2 e; [7][] n-1 p-1 -1 2 e"
	if err != nil || coresText(got.Cores) != want {
		t.Errorf("got  %s, %v\nwant %s", coresText(got.Cores), err, want)
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
