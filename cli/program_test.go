package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runBatchProgram returns the output of a batch system's program, or why it failed (RM-4).
func TestRunProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for name, script := range map[string]string{
		"well": "echo \"$*\"", "fails": "echo first >&2; echo no such job >&2; exit 3", "silent": "exit 4",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"well": "a b\n", "fails": "fails: no such job", "silent": "silent: exit status 4", "gone": "the command gone was not found",
	} {
		out, err := runBatchProgram(name, "a", "b")
		if err != nil {
			out = err.Error()
		}
		if out != want {
			t.Errorf("%s: %q, want %q", name, out, want)
		}
	}
	b := &boundedBuffer{limit: 5}
	b.Write([]byte("abc"))
	if n, err := b.Write([]byte(strings.Repeat("d", 9))); n != 9 || err != nil || b.String() != "abcdd" || !b.truncated {
		t.Errorf("%d, %v, %q, full %v", n, err, b.String(), b.truncated)
	}
}
