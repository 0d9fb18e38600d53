package transport

import (
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunningBinary(t *testing.T) {
	s, err := RunningBinary()
	check(t, err)
	// The go command prints the expected build ID.
	out, err := exec.Command("go", "tool", "buildid", s.Path).Output()
	check(t, err)
	want := strings.TrimSpace(string(out))
	want = want[strings.LastIndexByte(want, '/')+1:]
	if s.Build != want || len(want) != 20 {
		t.Errorf("build %q, go tool buildid says %q", s.Build, want)
	}
	program, err := s.Open()
	check(t, err)
	defer program.Close()
	if n, _ := io.Copy(io.Discard, program); n != s.Size {
		t.Errorf("size %d, but %d bytes can be read", s.Size, n)
	}
}

func note(kind uint32, text string) string {
	b := []byte("\x7fELF" + strings.Repeat("\x00", 60))
	for _, v := range []uint32{4, uint32(len(text)), kind} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return string(b) + "Go\x00\x00" + text
}

func TestBuildID(t *testing.T) {
	const id = "I1O7FSW_-4ThTCRGAqd2"
	for name, c := range map[string]struct{ head, want string }{
		"none":           {"", ""},
		"script":         {"#!/bin/sh\necho Go\x00\x00\n", ""},
		"four parts":     {note(4, "a/b/c/"+id), id},
		"one part":       {note(4, id), id},
		"other note":     {note(1, "a/b/c/"+id), ""},
		"other, then it": {note(1, "a") + note(4, "a/b/c/"+id), id},
		"cut off":        {note(4, "a/b/c/"+id)[:100], ""},
		"too short":      {note(4, "a/b/c/d"), ""},
		"not plain":      {note(4, "a/b/c/$(reboot)I1O7FSW_-4"), ""},
		"name at start":  {"Go\x00\x00", ""},
	} {
		if got := buildID([]byte(c.head)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A program without a build ID is identified by its hash, and still delivered.
func TestProgramWithoutBuildID(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	check(t, os.WriteFile(file, []byte("#!/bin/sh\necho hello $*\ncat\n"), 0o755))
	s, err := readBinary("", file)
	check(t, err)
	if len(s.Build) != 40 {
		t.Fatalf("build %q, want 40 digits", s.Build)
	}
	s.nodeDirs = []string{}
	n := newNode(t, "/bin/sh")
	n.reach(t, s, "sent").Close()
	n.reach(t, s, "cache").Close()
}

func TestSharedParts(t *testing.T) {
	for path, want := range map[string]string{
		"/opt/a b/mpiexec": "/ /opt /opt/a b /opt/a b/mpiexec",
		"/mpiexec":         "/ /mpiexec",
		"":                 "",
		"mpiexec":          "",
		"/a/../b":          "",
		"/a\n/b":           "",
	} {
		if got := strings.Join(sharedParts(path), " "); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestMachines(t *testing.T) {
	for _, c := range []struct{ os, arch, want string }{
		{"linux", "amd64", `Linux\ x86_64|Linux\ amd64`},
		{"linux", "arm64", `Linux\ aarch64|Linux\ arm64`},
		{"linux", "riscv64", `Linux\ riscv64`},
		{"darwin", "arm64", `Darwin\ aarch64|Darwin\ arm64`},
	} {
		if got := unamePattern(c.os, c.arch); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.os, c.arch, got, c.want)
		}
	}
}
