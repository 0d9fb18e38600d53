//go:build linux

package probe

import (
	"os"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func TestOOMKills(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, test := range []struct {
		name string
		root fstest.MapFS
		want int
	}{
		{"version 2", fstest.MapFS{"proc/self/cgroup": file("0::/user/job\n"),
			"sys/fs/cgroup/user/job/memory.events": file("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n")}, 2},
		{"version 1", fstest.MapFS{"proc/self/cgroup": file("5:memory:/job\n1:name=systemd:/\n"),
			"sys/fs/cgroup/memory/job/memory.oom_control": file("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")}, 7},
		{"both, memory in version 1", fstest.MapFS{"proc/self/cgroup": file("5:memory:/job\n0::/\n"),
			"sys/fs/cgroup/memory/job/memory.oom_control": file("oom_kill 1\n")}, 1},
		{"the root group counts none", fstest.MapFS{"proc/self/cgroup": file("0::/\n")}, -1},
		{"no groups", fstest.MapFS{}, -1},
	} {
		if got := OOMKills(test.root); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// A full file system for shared memory is told, one with room is not. /proc stands for
// one that has no blocks to fill.
func TestFullShm(t *testing.T) {
	var fs unix.Statfs_t
	dir := t.TempDir()
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, "/proc", "/no/such"} {
		if got := FullShm(dir); got != "" {
			t.Errorf("%s: %q", dir, got)
		}
	}
	if unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m") != nil {
		return // not root: the tests on the field see it
	}
	defer unix.Unmount(dir, 0)
	if err := os.WriteFile(dir+"/full", make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := FullShm(dir); got != dir+" is full (2 MiB)" {
		t.Errorf("%q", got)
	}
}

func TestGroupMemory(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, test := range map[string]struct {
		root    fstest.MapFS
		want    int64
		counted bool
	}{
		"version 2":      {fstest.MapFS{"proc/self/cgroup": file("0::/user/job\n"), "sys/fs/cgroup/user/job/memory.current": file("4096\n")}, 4096, true},
		"version 1":      {fstest.MapFS{"proc/self/cgroup": file("5:memory:/job\n1:name=systemd:/\n"), "sys/fs/cgroup/memory/job/memory.usage_in_bytes": file("8192\n")}, 8192, true},
		"the root group": {fstest.MapFS{"proc/self/cgroup": file("5:memory:/\n0::/\n"), "sys/fs/cgroup/memory/memory.usage_in_bytes": file("1\n")}, 0, false},
		"another group":  {fstest.MapFS{"proc/self/cgroup": file("3:cpu:/job\n"), "sys/fs/cgroup/job/memory.current": file("1\n")}, 0, false},
		"junk":           {fstest.MapFS{"proc/self/cgroup": file("0::/job\n"), "sys/fs/cgroup/job/memory.current": file("-1\n")}, 0, false},
		"none":           {fstest.MapFS{}, 0, false},
	} {
		if got, counted := GroupMemory(test.root); got != test.want || counted != test.counted {
			t.Errorf("%s: %d, %v", name, got, counted)
		}
	}
}
