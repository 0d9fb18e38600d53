//go:build linux

package probe

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// cpuQuota returns how many CPUs the control group of this process, and the groups above it, may use at a
// time. It returns 0 if there is no limit. Fractions are rounded down, but the result is at least 1.
func cpuQuota(root fs.FS) int {
	least := 0.0
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			if cpus := cgroupQuota(root, parts[1], dir); cpus > 0 && (least == 0 || cpus < least) {
				least = cpus
			}
			if dir == "/" {
				break
			}
		}
	}
	if least == 0 || least >= 1<<16 {
		return 0
	}
	return max(1, int(least))
}

// cgroupQuota returns the CPU quota of one control group, in CPUs, or 0 if there is none. The argument controllers is
// the group's field in /proc/self/cgroup, which is empty in version 2 of cgroups. In version 2 the quota is
// in one file, as "200000 100000" or "max 100000" in µs. In version 1 it is in two files, and -1 means no limit.
func cgroupQuota(root fs.FS, controllers, dir string) float64 {
	switch {
	case controllers == "":
		most, period, _ := strings.Cut(ReadLine(root, path.Join("sys/fs/cgroup", dir, "cpu.max")), " ")
		return parseQuota(most, period)
	case strings.Contains(","+controllers+",", ",cpu,"):
		at := path.Join("sys/fs/cgroup/cpu", dir)
		return parseQuota(ReadLine(root, path.Join(at, "cpu.cfs_quota_us")), ReadLine(root, path.Join(at, "cpu.cfs_period_us")))
	}
	return 0
}

func parseQuota(quota, period string) float64 {
	m, err := strconv.ParseFloat(quota, 64)
	p, bad := strconv.ParseFloat(period, 64)
	if err != nil || bad != nil || m <= 0 || p <= 0 {
		return 0
	}
	return m / p
}
