//go:build linux

package sessiondir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testDir returns a new directory in /tmp, where ranks may register files.
func testDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The directory of a killed helper is removed by the next one, with the files that its ranks registered. Directories
// of running helpers stay, and so do other directories (PMIX-55).
func TestRemoveLeftDirs(t *testing.T) {
	temp := testDir(t)
	environ := []string{"TMPDIR=" + temp}
	segments := []string{filepath.Join(temp, "segment"), filepath.Join(temp, "more"), filepath.Join(temp, "late")}
	for _, file := range segments {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	killed, alive := NewDir(environ), NewDir(environ)
	for _, d := range []*Dir{killed, alive} {
		if err := d.AddNamespace("rs-1-0", []int{0}); err != nil {
			t.Fatal(err)
		}
	}
	killed.AppendCleanup(segments[:1])
	killed.WriteCleanup(append([]string{"/etc/passwd"}, segments[:2]...))
	killed.AppendCleanup(segments[2:])
	killed.lock.Close() // as the kernel does
	others := filepath.Join(temp, dirPrefix()+"other-host")
	half, fresh := filepath.Join(temp, dirPrefix()+"half"), filepath.Join(temp, dirPrefix()+"fresh")
	for _, dir := range []string{others, half, fresh} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(others, lockName), []byte("another host"), 0o600)
	os.Chtimes(half, time.Now(), time.Now().Add(-time.Hour))
	os.Symlink("/etc", filepath.Join(temp, dirPrefix()+"link"))
	os.WriteFile(filepath.Join(temp, dirPrefix()+"file"), nil, 0o700)
	RemoveLeftDirs(environ)
	for name, want := range map[string]bool{killed.Path: false, segments[0]: false, segments[1]: false, segments[2]: false, half: false,
		alive.Path: true, others: true, fresh: true, "/etc/passwd": true, filepath.Join(temp, dirPrefix()+"link"): true, filepath.Join(temp, dirPrefix()+"file"): true} {
		if _, err := os.Lstat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := alive.Remove(); err != nil {
		t.Error(err)
	}
}

// A directory that is full or not writable is not used.
func TestFirstUsable(t *testing.T) {
	temp, bare := testDir(t), testDir(t)
	if got := firstUsable([]string{"/nowhere", "/proc", temp}); got != temp {
		t.Errorf("%s is used", got)
	}
	if got := firstUsable([]string{"/nowhere"}); got != "/tmp" {
		t.Errorf("%s is used", got)
	}
	if os.Geteuid() == 0 && unix.Mount("none", bare, "tmpfs", 0, "size=4k") == nil {
		defer unix.Unmount(bare, 0)
		os.WriteFile(filepath.Join(bare, "full"), make([]byte, 8<<10), 0o600)
		if got := firstUsable([]string{bare, temp}); got != temp {
			t.Errorf("%s is used, which is full", got)
		}
	}
}

// The files of a group are removed with it; those of other groups stay.
func TestRemoveNamespace(t *testing.T) {
	d := NewDir([]string{"TMPDIR=" + testDir(t)})
	if err := d.RemoveNamespace("rs-1-0"); err != nil {
		t.Error(err)
	}
	for _, space := range []string{"rs-1-0", "rs-1-1"} {
		if err := d.AddNamespace(space, []int{0, 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.RemoveNamespace("rs-1-1"); err != nil {
		t.Error(err)
	}
	for space, want := range map[string]bool{"rs-1-0": true, "rs-1-1": false} {
		if _, err := os.Lstat(filepath.Join(d.Path, space)); (err == nil) != want {
			t.Errorf("%s: %v", space, err)
		}
	}
	if _, err := d.Remove(); err != nil {
		t.Error(err)
	}
}

// A directory that has to stay does so with its contents: when its groups end, when its helper ends, and when that was
// killed. The registered files elsewhere are removed.
func TestSessionDirStays(t *testing.T) {
	temp := testDir(t)
	environ := []string{"TMPDIR=" + temp}
	segment := filepath.Join(temp, "segment")
	if err := os.WriteFile(segment, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	killed, ended := NewDir(environ), NewDir(environ)
	for _, d := range []*Dir{killed, ended} {
		d.Keep = true
		if err := d.AddNamespace("rs-1-0", []int{0}); err != nil {
			t.Fatal(err)
		}
		if err := d.RemoveNamespace("rs-1-0"); err != nil {
			t.Error(err)
		}
	}
	killed.AppendCleanup([]string{segment})
	killed.lock.Close() // as the kernel does
	if left, err := ended.Remove(); left != ended.Path || err != nil {
		t.Errorf("left is %q, %v", left, err)
	}
	if left, err := ended.Remove(); left != "" || err != nil {
		t.Errorf("of one that was told of, left is %q, %v", left, err)
	}
	RemoveLeftDirs(environ)
	for _, d := range []*Dir{killed, ended} {
		if _, err := os.Lstat(filepath.Join(d.Path, "rs-1-0", "0")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(segment); err == nil {
		t.Error("the segment of a killed helper stays")
	}
}
