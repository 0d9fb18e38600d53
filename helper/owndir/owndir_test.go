//go:build linux

package owndir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A directory is opened only if it belongs to this user. The Root stays with it when its name changes.
func TestOpen(t *testing.T) {
	temp := t.TempDir()
	at := func(name string) string { return filepath.Join(temp, name) }
	for _, err := range []error{
		os.Mkdir(at("ours"), 0o700), os.Mkdir(at("ours/below"), 0o755), os.Symlink("below", at("ours/link")), os.Symlink("ours", at("link")),
		os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o1777), os.Mkdir(at("group"), 0o700), os.Chmod(at("group"), 0o770),
		os.WriteFile(at("file"), nil, 0o600), os.Mkdir(at("foreign"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]error{"ours": nil, "ours/below": nil, "link": ErrNotOwned, "open": ErrWritable, "group": ErrWritable, "file": ErrNotOwned, "none": os.ErrNotExist}
	if os.Geteuid() == 0 {
		if err := os.Chown(at("foreign"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		want["foreign"] = ErrNotOwned
	}
	for name, want := range want {
		dir, err := Open(at(name))
		if err == nil {
			dir.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	ours, err := Open(at("ours"))
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if _, err := OpenIn(ours, "link"); err != ErrNotOwned {
		t.Errorf("a link in it: %v", err)
	}
	below, err := OpenIn(ours, "below")
	if err != nil {
		t.Fatal(err)
	}
	below.Close()
}

// Remove removes the directory that was opened. Another one that has its name by then stays.
func TestRemoveWhatWasOpened(t *testing.T) {
	temp := t.TempDir()
	path, moved := filepath.Join(temp, "dir"), filepath.Join(temp, "moved")
	for _, dir := range []string{path, moved} {
		if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, err := range []error{os.Rename(path, path+".old"), os.Symlink(moved, path)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(dir, path); err == nil {
		t.Error("the link was removed")
	}
	if _, err := os.Stat(filepath.Join(moved, "a/b")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(path + ".old"); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
