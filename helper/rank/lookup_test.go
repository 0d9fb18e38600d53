//go:build linux

package rank

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/job"
)

// The program is the first one in the path that can run. A file that cannot run is skipped; it is reported if no other
// is found.
func TestFindProgram(t *testing.T) {
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
		{"prog", "plain", "plain/prog: permission denied", job.ExitCannotRun},
		{"prog", "folder", "program prog: not found in PATH", job.ExitNotFound},
		{"prog", "closed none", "program prog: not found in PATH", job.ExitNotFound}, // root may search it: not there either
		{"here", "good", "program here: not found in PATH", job.ExitNotFound},
		{"./here", "good", "here", 0},
		{"./none", "good", "program ./none: no such file", job.ExitNotFound},
		{"./folder", "good", "is a directory", job.ExitCannotRun},
	}
	for _, test := range tests {
		var path []string
		for folder := range strings.FieldsSeq(test.path) {
			path = append(path, filepath.Join(dir, folder))
		}
		file, err := FindProgram(test.program, dir, nil, strings.Join(path, ":"))
		switch {
		case err == nil && (test.code != 0 || file != filepath.Join(dir, test.want)):
			t.Errorf("%s in %s: got %s, want %s", test.program, test.path, file, test.want)
		case err != nil && (err.Code != test.code || !strings.Contains(err.Reason, test.want)):
			t.Errorf("%s in %s: got %d, %q, want %d, %q", test.program, test.path, err.Code, err.Reason, test.code, test.want)
		}
	}
	file, err := FindProgram("prog", dir, []string{filepath.Join(dir, "good")}, filepath.Join(dir, "none"))
	if err != nil || file != filepath.Join(dir, "good/prog") {
		t.Errorf("-path good: %s, %+v", file, err)
	}
	for _, last := range []string{".", dir} {
		if file, err := FindProgram("here", filepath.Join(dir, "good"), nil, filepath.Join(dir, "none"), last, dir); err != nil || file != filepath.Join(dir, "here") {
			t.Errorf("in the last folders: %s, %+v", file, err)
		}
	}
	if file, err := FindProgram("prog", dir, nil, filepath.Join(dir, "good"), filepath.Join(dir, "plain")); err != nil || file != filepath.Join(dir, "good/prog") {
		t.Errorf("PATH comes before the last folders: %s, %+v", file, err)
	}
	if _, err := FindProgram("x", dir, nil, "", "/a", "/b"); err == nil || !strings.Contains(err.Reason, "not found in PATH and in /a:/b") {
		t.Errorf("in none of the last folders: %+v", err)
	}
	if _, err := FindProgram("x", dir, []string{"good"}, ""); err == nil || !strings.Contains(err.Reason, "not found in good and in PATH") {
		t.Errorf("-path without the program: %+v", err)
	}
	if _, err := FindProgram("here", dir, nil, "/usr/bin"); err == nil || err.Hint != "did you mean ./here?" {
		t.Errorf("a program in the working directory: %+v", err)
	}
}

// A command line in quotes and a source file get a hint that fits.
func TestHintsOnOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.c", "b.f90", "c.cpp", "d.py", "e.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const quoted = "the program name has a blank; do not put quotes around a program together with its arguments"
	for program, want := range map[string]string{
		"ls -l":   quoted,
		"./a -x":  quoted,
		"a.c":     "this file is source code; compile it first: mpicc -o a a.c",
		"./a.c":   "this file is source code; compile it first: mpicc -o ./a ./a.c",
		"./b.f90": "this file is source code; compile it first: mpifort -o ./b ./b.f90",
		"./c.cpp": "this file is source code; compile it first: mpicxx -o ./c ./c.cpp",
		"./d.py":  "start the script by its interpreter: python3 ./d.py",
		"d.py":    "start the script by its interpreter: python3 d.py",
		"./e.txt": "make the program executable: chmod +x ./e.txt",
		"x.c":     "",
	} {
		if _, err := FindProgram(program, dir, nil, "/usr/bin"); err == nil || err.Hint != want {
			t.Errorf("%q: %+v, want the hint %q", program, err, want)
		}
	}
}
