//go:build linux

package sessiondir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A session directory is private, is in TMPDIR if that is usable, and is removed at the end.
func TestSessionDir(t *testing.T) {
	temp := t.TempDir()
	if len(temp) > 20 {
		var err error
		if temp, err = os.MkdirTemp("/tmp", "sd"); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(temp)
	}
	d := NewDir([]string{"TMPDIR=" + temp})
	if filepath.Dir(d.Path) != temp || len(d.Path) > maxDirPath {
		t.Fatalf("it is %s", d.Path)
	}
	if _, err := os.Lstat(d.Path); err == nil {
		t.Error("it is there before anybody asks for it")
	}
	if err := d.AddNamespace("rs-1-0", []int{0}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(d.Path, "rs-1-0", "0"))
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of rank 0 is %v, %v", info, err)
	}
	if left, err := d.Remove(); left != "" || err != nil {
		t.Error(left, err)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	taken := NewDir([]string{"TMPDIR=" + temp})
	os.Symlink("/", taken.Path)
	if err := taken.AddNamespace("rs-1-0", nil); err == nil || err.Error() != "file exists" {
		t.Errorf("a name that somebody else has taken: %v", err)
	}
	if left, err := taken.Remove(); left != "" || err != nil {
		t.Error(left, err)
	}
	for why, temp := range map[string]string{"relative": "tmp", "absent": "/nowhere", "too long": "/" + strings.Repeat("x", 60), "none": ""} {
		if d := NewDir([]string{"TMPDIR=" + temp}); filepath.Dir(d.Path) != "/tmp" {
			t.Errorf("TMPDIR %s: it is %s", why, d.Path)
		}
	}
}
