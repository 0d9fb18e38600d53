//go:build linux

package probe

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A full file system for shared memory is reported, one with free space is not. /proc stands for
// a file system without blocks.
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
		return // without root nothing can be mounted; the field tests check this
	}
	defer unix.Unmount(dir, 0)
	if err := os.WriteFile(dir+"/full", make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := FullShm(dir); got != dir+" is full (2 MiB)" {
		t.Errorf("%q", got)
	}
}
