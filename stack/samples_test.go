package stack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// samples returns small ELF files with symbols, CFI and DWARF, or none without a compiler.
func samples(t testing.TB) (all [][]byte) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "a.c")
	if err := os.WriteFile(source, []byte("static inline int g(int n) { return n * 3; }\nint f(int n) { return g(n) + 1; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-g", "-O2"}, {"-gdwarf-4", "-O2", "-gz"}, {"-O0", "-fno-asynchronous-unwind-tables", "-g"}} {
		out := filepath.Join(dir, "a.so")
		cmd := exec.Command(gcc, append(flags, "-nostdlib", "-shared", "-o", out, source)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, content)
	}
	return all
}
