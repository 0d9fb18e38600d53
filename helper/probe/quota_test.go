//go:build linux

package probe

import (
	"testing"
	"testing/fstest"
)

// The quota of CPU time may be set on the control group or on any one above it (cgroups(7)).
func TestQuota(t *testing.T) {
	tests := []struct {
		name   string
		groups string
		files  map[string]string
		want   int
	}{
		{"none", "0::/\n", nil, 0},
		{"no limit", "0::/a\n", map[string]string{"a/cpu.max": "max 100000\n"}, 0},
		{"two CPUs", "0::/a\n", map[string]string{"a/cpu.max": "200000 100000\n"}, 2},
		{"above", "0::/a/b/c\n", map[string]string{"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n", "a/b/c/cpu.max": "800000 100000\n"}, 3},
		{"a container's own", "0::/\n", map[string]string{"cpu.max": "250000 100000\n"}, 2},
		{"half a CPU", "0::/\n", map[string]string{"cpu.max": "50000 100000\n"}, 1},
		{"version 1", "4:memory:/x\n3:cpu,cpuacct:/a/b\n0::/\n", map[string]string{"cpu/a/cpu.cfs_quota_us": "400000\n", "cpu/a/cpu.cfs_period_us": "100000\n",
			"cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 4},
		{"junk", "0::/\n1\n", map[string]string{"cpu.max": "-5 0\n"}, 0},
		{"huge", "0::/\n", map[string]string{"cpu.max": "1e300 1\n"}, 0},
	}
	for _, test := range tests {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(test.groups)}}
		for name, text := range test.files {
			root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := cpuQuota(root); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
