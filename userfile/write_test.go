package userfile

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced whole, also behind a symbolic link, or stays unchanged. No other file is left.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	os.WriteFile(file, []byte("old"), 0o600)
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	if err := Replace(link, write); err != nil {
		t.Fatal(err)
	}
	if err := Replace(file, func(w io.Writer) error { io.WriteString(w, "half"); return io.ErrShortWrite }); err != io.ErrShortWrite {
		t.Error(err)
	}
	text, _ := os.ReadFile(file)
	if names, _ := os.ReadDir(dir); string(text) != "new" || len(names) != 2 {
		t.Errorf("%q, %v", text, names)
	}
}
