//go:build linux

package proc

import (
	"io/fs"
	"maps"
	"testing"
	"testing/fstest"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// Denials are counted by our control group, of either version, and by the machine.
func TestDenials(t *testing.T) {
	for name, test := range map[string]struct {
		root fstest.MapFS
		want Denials
	}{
		"version 2": {fstest.MapFS{"proc/self/cgroup": file("0::/user/job\n"), "proc/vmstat": file("nr_free_pages 1\noom_kill 5\n"),
			"sys/fs/cgroup/user/job/memory.events": file("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n"),
			"sys/fs/cgroup/user/job/pids.events":   file("max 1\n"), "sys/fs/cgroup/user/pids.events": file("max 2\n")}, Denials{2, 5, 3}},
		"version 1": {fstest.MapFS{"proc/self/cgroup": file("8:pids:/job\n5:memory:/job\n1:name=systemd:/\n"),
			"sys/fs/cgroup/pids/job/pids.events":          file("max 4\n"),
			"sys/fs/cgroup/memory/job/memory.oom_control": file("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")}, Denials{7, -1, 4}},
		"both, memory in version 1": {fstest.MapFS{"proc/self/cgroup": file("5:memory:/job\n0::/\n"),
			"sys/fs/cgroup/memory/job/memory.oom_control": file("oom_kill 1\n")}, Denials{1, -1, -1}},
		"a group above counts": {fstest.MapFS{"proc/self/cgroup": file("0::/user/job\n"),
			"sys/fs/cgroup/user/memory.events": file("oom_kill 3\n")}, Denials{3, -1, -1}},
		"a container sees its own group as the root": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.events": file("oom_kill 3\n")}, Denials{3, -1, -1}},
		"the root group counts none": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "proc/vmstat": file("oom_kill 1\n")}, Denials{-1, 1, -1}},
		"junk":                       {fstest.MapFS{"proc/self/cgroup": file("x\n0::/job\n"), "sys/fs/cgroup/job/memory.events": file("oom_kill x\n")}, Denials{-1, -1, -1}},
		"no groups":                  {fstest.MapFS{}, Denials{-1, -1, -1}},
	} {
		if got := CountDenials(test.root); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// A text is returned only if a count has risen.
func TestOutOfMemoryAndProcesses(t *testing.T) {
	group := fstest.MapFS{"proc/self/cgroup": file("0::/user/job\n"), "proc/vmstat": file("oom_kill 5\n"),
		"sys/fs/cgroup/user/job/memory.events": file("oom_kill 3\n"), "sys/fs/cgroup/user/job/memory.max": file("max\n"),
		"sys/fs/cgroup/user/job/pids.events": file("max 4\n"), "sys/fs/cgroup/user/job/pids.max": file("100\n")}
	limited := fstest.MapFS{"sys/fs/cgroup/user/memory.max": file("1073741824\n"), "sys/fs/cgroup/user/pids.max": file("max\n")}
	maps.Copy(limited, group)
	for name, test := range map[string]struct {
		root      fs.FS
		since     Denials
		memory    string
		processes string
	}{
		"no count has risen": {group, Denials{3, 5, 4}, "", ""},
		"nothing is known":   {group, Denials{-1, -1, -1}, "", ""},
		"once": {group, Denials{2, 4, 3}, "out of memory: the kernel has killed a process in the job's control group",
			"out of processes: the kernel refused to start more processes or threads in the job's control group, whose limit is 100 (pids.max, TasksMax of systemd)"},
		"twice, and the limit is that of a group above": {limited, Denials{1, 3, 4}, "out of memory: the kernel has killed 2 processes in the job's control group, whose limit is 1024 MiB", ""},
		"another group": {group, Denials{3, 4, 4}, "out of memory: the kernel has killed a process on this machine", ""},
	} {
		if got := test.since.OutOfMemory(test.root); got != test.memory {
			t.Errorf("%s: %q, want %q", name, got, test.memory)
		}
		if got := test.since.OutOfProcesses(test.root); got != test.processes {
			t.Errorf("%s: %q, want %q", name, got, test.processes)
		}
	}
}
