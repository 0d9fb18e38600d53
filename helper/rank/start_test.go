//go:build linux

package rank

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/job"
)

func TestCheckWorkingDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckWorkingDir(dir); err != nil {
		t.Errorf("%v", err)
	}
	for name, reason := range map[string]string{"/none": "no such file or directory", "/file": "not a directory"} {
		err := CheckWorkingDir(dir + name)
		if err == nil || err.Code != job.ExitNotFound || !strings.Contains(err.Reason, dir+name+": "+reason) || err.Hint == "" {
			t.Errorf("%s: %#v, want 127 %q", name, err, reason)
		}
	}
}

func TestExecError(t *testing.T) {
	env := []string{"SMALL=1", "TOKEN=" + strings.Repeat("secret", 1000), "B=" + strings.Repeat("x", 500), "C=" + strings.Repeat("x", 50)}
	for _, test := range []struct {
		err          error
		reason, hint string
	}{
		{syscall.ENOENT, "interpreter or loader is missing", "check its first line"},
		{syscall.ENOEXEC, "not a program for this machine (exec format error)", ""},
		{syscall.E2BIG, "too long (6581 bytes)", "TOKEN (6006 bytes), B (502 bytes), C (52 bytes)"},
		{syscall.EAGAIN, "does not allow more processes", "ulimit -u"},
		{&os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.EPERM}, "program ./p: operation not permitted", ""},
	} {
		got := execError(test.err, "prog", "./p", []string{"./p", "-x", "yy"}, env)
		if got.Code != job.ExitCannotRun || !strings.Contains(got.Reason, test.reason) || !strings.Contains(got.Hint, test.hint) {
			t.Errorf("%v: %#v, want %q, %q", test.err, got, test.reason, test.hint)
		}
		if strings.Contains(got.Reason+got.Hint, "secret") {
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
		p, err := openPipes(stdin, false)
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
