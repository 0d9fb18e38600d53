//go:build linux

package helper

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"remshell/job"
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
		if got := oomKills(test.root); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// A hint needs a counter that has risen, and a rank that we have not killed ourselves.
func TestHints(t *testing.T) {
	events := &fstest.MapFile{Data: []byte("oom_kill 3\n")}
	root := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/job\n")}, "sys/fs/cgroup/job/memory.events": events}
	for _, test := range []struct {
		name   string
		before int
		exit   job.Exit
		want   string
	}{
		{"raised", 2, job.Exit{Signal: 9}, "out of memory: the kernel has killed a process of its control group"},
		{"raised twice", 1, job.Exit{Signal: 9}, "out of memory: the kernel has killed 2 processes of its control group"},
		{"not raised", 3, job.Exit{Signal: 9}, ""},
		{"unknown", -1, job.Exit{Signal: 9}, ""},
		{"killed by us", 2, job.Exit{Signal: 9, Asked: true}, ""},
		{"another signal", 2, job.Exit{Signal: 11}, ""},
	} {
		s := &session{sys: System{Root: root}, oomKills: test.before}
		if got := s.hint(&test.exit); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
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
		if got := fullShm(dir); got != "" {
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
	if got := fullShm(dir); got != dir+" is full (2 MiB)" {
		t.Errorf("%q", got)
	}
}

func TestForeign(t *testing.T) {
	elf := func(machine byte) string {
		return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00" + string([]byte{machine, 0})
	}
	for text, want := range map[string]string{elf(22): "s390", elf(243): "riscv", "\x7fELF": "", "#!/bin/sh\n" + strings.Repeat("#", 30): ""} {
		file := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := foreign(file); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := foreign("/proc/self/exe"); got != "" {
		t.Errorf("this program is for %s", got)
	}
}

// builtFor knows a program by the libraries it is linked with; a C compiler makes one
// that looks like Open MPI's.
func TestBuiltFor(t *testing.T) {
	if got := builtFor("/bin/sh"); got != "" {
		t.Errorf("/bin/sh: %q", got)
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return // nothing to make one with
	}
	for name, want := range map[string]string{"libmpi.so.40": "Open MPI", "libmpi.so.12": "", "libmpich.so.12": "", "libmpi_mpifh.so.40": "Open MPI"} {
		dir := t.TempDir()
		build := func(args ...string) {
			cmd := exec.Command(gcc, args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("gcc %q: %v: %s", args, err, out)
			}
		}
		write := func(file, text string) {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("l.c", "int f(void) { return 0; }")
		write("p.c", "int f(void); int main(void) { return f(); }")
		build("-shared", "-fPIC", "-Wl,-soname,"+name, "-o", "l.so", "l.c")
		build("-o", "p", "p.c", "l.so")
		if got := builtFor(filepath.Join(dir, "p")); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
