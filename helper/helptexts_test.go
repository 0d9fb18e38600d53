//go:build linux

package helper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver/pmix/message"
)

// A text that several ranks have to say is printed once, and after a while it is told how many more
// there were; texts about nothing in particular are all printed.
func TestHelpTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		h := newHelpTexts(func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) })
		abort, other := message.Topic{File: "help-mpi-api.txt", Name: "mpi-abort"}, message.Topic{File: "help-mpi-api.txt", Name: "other"}
		if !h.first(abort) || h.first(abort) || !h.first(other) || h.first(abort) || !h.first(message.Topic{}) || !h.first(message.Topic{}) {
			t.Error("a text is printed twice, or not at all")
		}
		time.Sleep(repeatsDelay)
		synctest.Wait()
		h.first(abort)
		h.close()
		h.close()
		want := "(mpi-abort: the same from 2 more ranks) (mpi-abort: the same from 1 more rank)"
		if got := strings.Join(told, " "); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		time.Sleep(repeatsDelay)
	})
}

// A session directory is ours alone, is where TMPDIR says if that will do, and is gone in the end.
func TestSessionDir(t *testing.T) {
	temp := t.TempDir()
	if len(temp) > 20 {
		var err error
		if temp, err = os.MkdirTemp("/tmp", "sd"); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(temp)
	}
	d := newSessionDir([]string{"TMPDIR=" + temp})
	if filepath.Dir(d.path) != temp || len(d.path) > maxSessionDir {
		t.Fatalf("it is %s", d.path)
	}
	if _, err := os.Lstat(d.path); err == nil {
		t.Error("it is there before anybody asks for it")
	}
	if err := d.add("rs-1-0", []*process{{}}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(d.path, "rs-1-0", "0"))
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of rank 0 is %v, %v", info, err)
	}
	if err := d.remove(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	taken := newSessionDir([]string{"TMPDIR=" + temp})
	os.Symlink("/", taken.path)
	if err := taken.add("rs-1-0", nil); err == nil || err.Error() != "file exists" {
		t.Errorf("a name that somebody else has taken: %v", err)
	}
	if err := taken.remove(); err != nil {
		t.Error(err)
	}
	for why, temp := range map[string]string{"relative": "tmp", "absent": "/nowhere", "too long": "/" + strings.Repeat("x", 60), "none": ""} {
		if d := newSessionDir([]string{"TMPDIR=" + temp}); filepath.Dir(d.path) != "/tmp" {
			t.Errorf("TMPDIR %s: it is %s", why, d.path)
		}
	}
}
