//go:build linux

package rank

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOtherArch(t *testing.T) {
	elf := func(machine byte) string {
		return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00" + string([]byte{machine, 0})
	}
	for text, want := range map[string]string{elf(22): "s390", elf(243): "riscv", "\x7fELF": "", "#!/bin/sh\n" + strings.Repeat("#", 30): ""} {
		file := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := otherArch(file); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := otherArch("/proc/self/exe"); got != "" {
		t.Errorf("this program is for %s", got)
	}
}
