//go:build linux

package sessiondir

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Registered files are removed if they are regular and in an allowed directory. The target of a link stays.
func TestLeftoversAreRemoved(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "remshell-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	elsewhere := filepath.Join(dir, "elsewhere")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "segment"), nil, 0o600),
		os.Mkdir(elsewhere, 0o700),
		os.WriteFile(filepath.Join(elsewhere, "kept"), nil, 0o600),
		os.Symlink(filepath.Join(elsewhere, "kept"), filepath.Join(dir, "link")),
		os.Symlink(elsewhere, filepath.Join(dir, "detour")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var l Leftovers
	bad := []string{"/etc/passwd", "segment", "", "/tmp/../etc/passwd", "/tmp//x", "/dev/shm", "/tmp/" + strings.Repeat("x", maxLeftPath)}
	if refused := l.AddFiles(0, bad); len(refused) != len(bad) {
		t.Errorf("refused are %q of %q", refused, bad)
	}
	named := []string{"segment", "gone", "link", "detour/kept", "elsewhere"}
	for i, name := range named {
		named[i] = filepath.Join(dir, name)
	}
	if refused := l.AddFiles(1, named); len(refused) > 0 {
		t.Errorf("refused are %q", refused)
	}
	if errs := l.RemoveAll(); len(errs) != 3 {
		t.Errorf("%v; want one each of the link, the detour and the directory", errs)
	}
	left, _ := filepath.Glob(dir + "/*")
	if _, err := os.Stat(filepath.Join(elsewhere, "kept")); err != nil || len(left) != 3 {
		t.Errorf("left are %q, %v", left, err)
	}
}

// A rank cannot register endlessly many files. Other ranks still can register theirs.
func TestLeftoversAreBounded(t *testing.T) {
	var l Leftovers
	for i := range maxFilesOfRank {
		if refused := l.AddFiles(3, []string{"/dev/shm/" + strconv.Itoa(i)}); refused != nil {
			t.Fatalf("refused is %q", refused)
		}
	}
	for rank, want := range map[int]int{3: 1, 4: 0} {
		if refused := l.AddFiles(rank, []string{"/dev/shm/more"}); len(refused) != want {
			t.Errorf("rank %d: refused are %q", rank, refused)
		}
	}
}

// Without openat2, directories are opened part by part, and links are not followed either.
func TestLeftoversOnOldKernels(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "real/below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"real/below": nil, "real": nil, "link": unix.ENOTDIR, "link/below": unix.ENOTDIR, "none/below": unix.ENOENT} {
		fd, err := walkToDir(filepath.Join(dir, name))
		if err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err != nil {
			continue
		}
		if at, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); at != filepath.Join(dir, name) {
			t.Errorf("%s led to %s", name, at)
		}
		unix.Close(fd)
	}
}
