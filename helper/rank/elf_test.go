//go:build linux

package rank

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

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

// BuiltFor knows a program by the libraries it is linked with; a C compiler makes one
// that looks like Open MPI's.
func TestBuiltFor(t *testing.T) {
	if got := BuiltFor("/bin/sh"); got != "" {
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
		if got := BuiltFor(filepath.Join(dir, "p")); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
