//go:build linux

package probe

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OOMKills reads how many processes of our control group the kernel has killed for want
// of memory (cgroups(7): memory.events of version 2, memory.oom_control of version 1);
// -1: it cannot be read.
func OOMKills(root fs.FS) int {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		file := ""
		switch {
		case fields[1] == "":
			file = path.Join("sys/fs/cgroup", fields[2], "memory.events")
		case fields[1] == "memory":
			file = path.Join("sys/fs/cgroup/memory", fields[2], "memory.oom_control")
		}
		text, err := fs.ReadFile(root, file)
		if file == "" || err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
				if n, err := strconv.Atoi(strings.TrimSpace(count)); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// GroupMemory reads what our control group has, in bytes; false: none counts it, as the root group does not.
func GroupMemory(root fs.FS) (bytes int64, counted bool) {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] != "" && fields[1] != "memory" || strings.Trim(fields[2], "/") == "" {
			continue
		}
		file := path.Join("sys/fs/cgroup", fields[2], "memory.current")
		if fields[1] == "memory" {
			file = path.Join("sys/fs/cgroup/memory", fields[2], "memory.usage_in_bytes")
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n >= 0 && n <= 1<<60 {
			return n, true
		}
	}
	return 0, false
}

// FullShm says so if a file system for shared memory has no page left: whoever touches
// one that was promised gets SIGBUS.
func FullShm(dir string) string {
	var fs unix.Statfs_t
	const small = 1 << 20
	if unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 || fs.Bavail*uint64(fs.Bsize) > small {
		return ""
	}
	return fmt.Sprintf("%s is full (%d MiB)", dir, fs.Blocks*uint64(fs.Bsize)>>20)
}
