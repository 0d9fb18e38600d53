//go:build linux

package helper

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"remshell/job"
)

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
