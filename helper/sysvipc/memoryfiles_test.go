//go:build linux

package sysvipc

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// In-memory files count once, with the pages that they have: while they are open, and those in /dev/shm as long as they exist.
func TestShares(t *testing.T) {
	const page, room = 4096, 1 << 30
	name := filepath.Join(ShmDir, fmt.Sprint("shares-test-", os.Getpid()))
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Skip(err) // no directory of shared memory on this machine
	}
	t.Cleanup(func() { os.Remove(name) })
	fd, err := unix.MemfdCreate("shares", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	memfd := os.NewFile(uintptr(fd), "memfd")
	again, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	var s MemoryFiles
	us := []int{os.Getpid(), os.Getpid()}
	before := s.Size(us)
	size := func(what string, pages int64) {
		t.Helper()
		if got := s.Size(us) - before; got != pages*page {
			t.Errorf("%s: %d bytes, want %d pages", what, got, pages)
		}
	}
	for _, f := range []*os.File{file, memfd} {
		if err := f.Truncate(room); err != nil {
			t.Fatal(err)
		}
	}
	size("nothing is written", 0)
	memfd.WriteAt(make([]byte, 3*page), 0)
	file.WriteAt(make([]byte, 5*page), 0)
	size("written", 8)
	unix.Close(again)
	memfd.Close()
	size("the memfd is closed", 5)
	file.Close()
	size("the file is closed", 5)
	other := MemoryFiles{}
	if got := other.Size(us); got != before {
		t.Errorf("who has not seen it held counts %d bytes, want %d", got, before)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	size("removed", 0)
}
