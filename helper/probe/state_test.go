//go:build linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// stateFile returns the name of a settings file whose folder does not exist yet. Only root can change settings.
func stateFile(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root changes the settings")
	}
	return filepath.Join(t.TempDir(), "remshell", "state.toml")
}

func addUser(name string) func(job.NodeSettings) (job.NodeSettings, error) {
	return func(s job.NodeSettings) (job.NodeSettings, error) {
		s.Allow.Users = append(s.Allow.Users, name)
		return s, nil
	}
}

// Changes of several processes at once are all kept. The last removal removes the file.
func TestChangeState(t *testing.T) {
	file := stateFile(t)
	const changes = 32
	var all sync.WaitGroup
	for i := range changes {
		all.Go(func() {
			if _, err := ChangeState(t.Context(), file, addUser(fmt.Sprint("u", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s, err := ReadState(file)
	if err != nil || len(s.Allow.Users) != changes {
		t.Errorf("%d of %d users, %v", len(s.Allow.Users), changes, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	refused := errors.New("no")
	if _, err := ChangeState(t.Context(), file, func(job.NodeSettings) (job.NodeSettings, error) { return job.NodeSettings{}, refused }); err != refused {
		t.Error(err)
	}
	if s, err := ReadState(file); err != nil || len(s.Allow.Users) != changes {
		t.Errorf("after a refused change: %+v, %v", s, err)
	}
	if _, err := ChangeState(t.Context(), file, func(job.NodeSettings) (job.NodeSettings, error) { return job.NodeSettings{}, nil }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

// A lock that another process of root keeps ends the change with a message.
func TestChangeStateLocked(t *testing.T) {
	file := stateFile(t)
	if _, err := ChangeState(t.Context(), file, addUser("a")); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(filepath.Join(filepath.Dir(file), stateLock), unix.O_RDWR, 0)
	if err != nil || unix.Flock(fd, unix.LOCK_EX) != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ctx, done := context.WithTimeout(t.Context(), time.Millisecond)
	defer done()
	if _, err := ChangeState(ctx, file, addUser("b")); err == nil || !strings.Contains(err.Error(), "another process has locked the file") {
		t.Error(err)
	}
}

// A file that a killed process has left is replaced, and a link in its place is not followed.
func TestChangeStateAfterCrash(t *testing.T) {
	file := stateFile(t)
	dir := filepath.Dir(file)
	other := filepath.Join(filepath.Dir(dir), "other")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(other, []byte("x"), 0o644), os.Symlink(other, filepath.Join(dir, newState))); err != nil {
		t.Fatal(err)
	}
	if _, err := ChangeState(t.Context(), file, addUser("a")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(other); string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}

// A file that is not root's own small file is an error for those who read it and for those who change it.
func TestHostileState(t *testing.T) {
	for name, test := range map[string]struct {
		make func(file string) error
		want string
	}{
		"link":     {func(file string) error { return os.Symlink("/etc/passwd", file) }, "must be a regular file, not a symbolic link"},
		"FIFO":     {func(file string) error { return unix.Mkfifo(file, 0o644) }, "is not a regular file"},
		"folder":   {func(file string) error { return os.Mkdir(file, 0o755) }, "is not a regular file"},
		"large":    {func(file string) error { return os.WriteFile(file, make([]byte, 10<<20), 0o644) }, "the file has 10485760 bytes, but at most 65536 are allowed"},
		"another":  {func(file string) error { return errors.Join(os.WriteFile(file, nil, 0o644), os.Chown(file, 12345, -1)) }, "the file belongs to uid 12345, but must belong to root"},
		"writable": {func(file string) error { return errors.Join(os.WriteFile(file, nil, 0o644), os.Chmod(file, 0o664)) }, "mode 0664: users other than root may write to it"},
		"garbage":  {func(file string) error { return os.WriteFile(file, []byte("\x00\xff"), 0o644) }, "state.toml:1: "},
	} {
		file := stateFile(t)
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), test.make(file)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadState(file); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: read: %v, want %q", name, err, test.want)
		}
		if _, err := ChangeState(t.Context(), file, addUser("a")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: change: %v, want %q", name, err, test.want)
		}
		if r := (AdminFiles{State: file}).Rules(); !r.FileFault || !strings.Contains(r.Forbidden, test.want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
