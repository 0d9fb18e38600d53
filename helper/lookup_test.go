//go:build linux

package helper

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program is the first along the path that can run. What is only in the way is
// passed over, and told if nothing else is found and it is a file.
func TestLocate(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"good/prog": 0o755, "plain/prog": 0o644, "here": 0o755, "folder/prog/x": 0o644} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "closed"), 0o000); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		program, path string // folders below dir
		want          string // file below dir, or part of the reason
		code          int
	}{
		{"prog", "none good", "good/prog", 0},
		{"prog", "plain folder closed good", "good/prog", 0},
		{"prog", "plain", "plain/prog: permission denied", exitCannotRun},
		{"prog", "folder", "program prog: not found in PATH", exitNotFound},
		{"prog", "closed none", "program prog: not found in PATH", exitNotFound}, // root may search it: not there either
		{"here", "good", "program here: not found in PATH", exitNotFound},
		{"./here", "good", "here", 0},
		{"./none", "good", "program ./none: no such file", exitNotFound},
		{"./folder", "good", "is a directory", exitCannotRun},
	}
	for _, test := range tests {
		var path []string
		for folder := range strings.FieldsSeq(test.path) {
			path = append(path, filepath.Join(dir, folder))
		}
		file, err := locate(test.program, dir, nil, strings.Join(path, ":"))
		switch {
		case err == nil && (test.code != 0 || file != filepath.Join(dir, test.want)):
			t.Errorf("%s in %s: got %s, want %s", test.program, test.path, file, test.want)
		case err != nil && (err.code != test.code || !strings.Contains(err.reason, test.want)):
			t.Errorf("%s in %s: got %d, %q, want %d, %q", test.program, test.path, err.code, err.reason, test.code, test.want)
		}
	}
	file, err := locate("prog", dir, []string{filepath.Join(dir, "good")}, filepath.Join(dir, "none"))
	if err != nil || file != filepath.Join(dir, "good/prog") {
		t.Errorf("-path good: %s, %+v", file, err)
	}
	if _, err := locate("x", dir, []string{"good"}, ""); err == nil || !strings.Contains(err.reason, "not found in good and in PATH") {
		t.Errorf("-path without the program: %+v", err)
	}
	if _, err := locate("here", dir, nil, "/usr/bin"); err == nil || err.hint != "did you mean ./here?" {
		t.Errorf("a program in the working directory: %+v", err)
	}
}
