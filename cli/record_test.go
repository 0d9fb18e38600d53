package cli

import (
	"bytes"
	"fmt"
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
