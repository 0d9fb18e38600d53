//go:build linux

package helper

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// folders makes a tree to look for programs in. Files with x in their mode run.
func folders(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{
		"work/here": 0o755, "work/plain": 0o644, "work/sub/tool": 0o755,
		"a/tool": 0o644, "b/tool": 0o755, "b/here/x": 0o755, "c/denied": 0o644,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLocate(t *testing.T) {
	dir := folders(t)
	work := dir + "/work"
	path := strings.Join([]string{dir + "/a", dir + "/none", "", "sub", dir + "/b", dir + "/c"}, ":")
	for _, test := range []struct {
		program, path, want string
		code                int
		reason, hint        string
	}{
		{dir + "/b/tool", "", "/b/tool", 0, "", ""},
		{"./here", path, "/work/here", 0, "", ""},
		{"sub/tool", path, "/work/sub/tool", 0, "", ""},
		{"../b/tool", path, "/b/tool", 0, "", ""},
		{"tool", path, "/work/sub/tool", 0, "", ""}, // the first that can run, relative folders too
		{"tool", dir + "/a:" + dir + "/b", "/b/tool", 0, "", ""},
		{"./plain", path, "", 126, "program ./plain: permission denied", "chmod +x ./plain"},
		{"./none", path, "", 127, "program ./none: no such file or directory", ""},
		{"./sub", path, "", 126, "is a directory", ""},
		{"./here/x", path, "", 127, "not a directory", ""},
		{"denied", path, "", 126, "/c/denied: permission denied", "chmod +x"},
		{"nowhere", path, "", 127, "program nowhere: not found in PATH", ""},
		{"here", dir + "/a", "", 127, "not found in PATH", "did you mean ./here?"},
		{"here", "", "", 127, "not found in PATH", "did you mean ./here?"},
		{"plain", dir + "/a", "", 127, "not found in PATH", ""}, // that one would not run either
	} {
		got, err := locate(test.program, work, test.path)
		switch {
		case test.code == 0 && (err != nil || got != dir+test.want):
			t.Errorf("%s: %s, %v, want %s", test.program, got, err, test.want)
		case test.code != 0 && (err == nil || err.code != test.code || !strings.Contains(err.reason, test.reason) ||
			!strings.Contains(err.hint, test.hint) || test.hint == "" && err.hint != ""):
			t.Errorf("%s: %#v, want %d %q, hint %q", test.program, err, test.code, test.reason, test.hint)
		}
	}
}

func TestEnterable(t *testing.T) {
	dir := folders(t)
	if err := enterable(dir); err != nil {
		t.Errorf("%v", err)
	}
	for name, reason := range map[string]string{"/none": "no such file or directory", "/b/tool": "not a directory"} {
		err := enterable(dir + name)
		if err == nil || err.code != exitNotFound || !strings.Contains(err.reason, dir+name+": "+reason) || err.hint == "" {
			t.Errorf("%s: %#v, want 127 %q", name, err, reason)
		}
	}
}

func TestExecFailed(t *testing.T) {
	env := []string{"SMALL=1", "TOKEN=" + strings.Repeat("secret", 1000), "B=" + strings.Repeat("x", 500), "C=" + strings.Repeat("x", 50)}
	for _, test := range []struct {
		err          error
		reason, hint string
	}{
		{syscall.ENOENT, "interpreter or loader is missing", "its first line"},
		{syscall.ENOEXEC, "not a program for this machine (exec format error)", ""},
		{syscall.E2BIG, "too long (6581 bytes)", "TOKEN (6006 bytes), B (502 bytes), C (52 bytes)"},
		{syscall.EAGAIN, "allows no more processes", "ulimit -u"},
		{&os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.EPERM}, "program ./p: operation not permitted", ""},
	} {
		got := execFailed(test.err, "./p", []string{"./p", "-x", "yy"}, env)
		if got.code != exitCannotRun || !strings.Contains(got.reason, test.reason) || !strings.Contains(got.hint, test.hint) {
			t.Errorf("%v: %#v, want %q, %q", test.err, got, test.reason, test.hint)
		}
		if strings.Contains(got.reason+got.hint, "secret") {
			t.Errorf("%v: shows the value of a variable", test.err)
		}
	}
}

func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{
		"echo hello\n": true, "echo hello": true, "echo\n\x00\x00": true,
		"": false, "\x7fELF\x02\x01\x01\x00": false, "\x00echo\n": false,
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := isText(path); got != want {
			t.Errorf("isText of %q = %v", text, got)
		}
	}
	if isText("/no/such/file") {
		t.Error("a missing file is text")
	}
}

func TestPipesCloseWhole(t *testing.T) {
	before := descriptors(t)
	for _, stdin := range []bool{false, true} {
		p, err := openPipes(stdin)
		if err != nil {
			t.Fatal(err)
		}
		for i, fd := range p.theirs {
			if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); flags&unix.O_NONBLOCK != 0 {
				t.Errorf("the rank's end %d does not block", i)
			}
		}
		p.close(p.ours[:])
		p.close(p.theirs[:])
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
