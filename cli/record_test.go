package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Lines of many jobs that end at once do not mix.
func TestAppendLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accounts")
	var writing sync.WaitGroup
	for i := range 50 {
		writing.Go(func() {
			if err := appendLine(file, []byte(strings.Repeat(fmt.Sprint(i%10), 20000)+"\n")); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if line != strings.Repeat(line[:1], 20000)+"\n" {
			t.Errorf("a line of %d bytes is not that of one job", len(line))
		}
	}
	if n := bytes.Count(text, []byte("\n")); n != 50 {
		t.Errorf("%d lines", n)
	}
}

// A user who may read the accounting file can lock it for ever, but lines are still appended.
func TestAppendLineToLockedAccounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accounts")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Skip(err)
	}
	if err := appendLine(file, []byte("a line\n")); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "a line\n" {
		t.Errorf("%q", text)
	}
}

// A file is replaced whole, also behind a symbolic link, or stays unchanged. No other file is left.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	os.WriteFile(file, []byte("old"), 0o600)
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	if err := replaceFile(link, write); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(file, func(w io.Writer) error { io.WriteString(w, "half"); return io.ErrShortWrite }); err != io.ErrShortWrite {
		t.Error(err)
	}
	text, _ := os.ReadFile(file)
	if names, _ := os.ReadDir(dir); string(text) != "new" || len(names) != 2 {
		t.Errorf("%q, %v", text, names)
	}
}
