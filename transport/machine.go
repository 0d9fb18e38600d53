package transport

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

/*
A launcher of one architecture reaches nodes of another if the program for them is
installed beside it:

	PREFIX/bin/mpiexec                              the launcher, links resolved
	PREFIX/libexec/remshell/mpiexec-OS-ARCH         for others; or below bin/ itself

The node's shell says in the same session what it is ("fail machine Linux aarch64"), and
is then told to look for that program instead.
*/

// unameWords are the words of uname -m for machines that run programs of an architecture, as
// shell patterns. Where there is no line, it is Go's own word: riscv64, ppc64le, s390x.
var unameWords = []struct {
	arch  string
	words []string
}{
	{"amd64", []string{"x86_64", "amd64"}},
	{"arm64", []string{"aarch64", "arm64"}},
	{"386", []string{"i?86", "x86_64"}},
	{"arm", []string{"armv[6-8]*"}},
	{"loong64", []string{"loongarch64"}},
}

// unamePattern is a shell pattern for what uname -s -m prints on machines that run
// programs of this operating system and architecture.
func unamePattern(goos, goarch string) string {
	names := []string{goarch}
	for _, s := range unameWords {
		if s.arch == goarch {
			names = s.words
		}
	}
	var patterns []string
	for _, name := range names {
		patterns = append(patterns, strings.ToUpper(goos[:1])+goos[1:]+`\ `+name)
	}
	return strings.Join(patterns, "|")
}

// parseUname is the operating system and architecture, in Go's words, of what uname -s -m
// prints: "Linux aarch64" is linux arm64. Of several that would do, it is the best.
func parseUname(uname string) (goos, goarch string, ok bool) {
	goos, machine, found := strings.Cut(strings.ToLower(strings.TrimSpace(uname)), " ")
	if !found || !isPlainWord(goos) || !isPlainWord(machine) {
		return "", "", false
	}
	for _, s := range unameWords {
		for _, word := range s.words {
			if match, _ := filepath.Match(word, machine); match {
				return goos, s.arch, true
			}
		}
	}
	return goos, machine, true
}

// isPlainWord says that what a node called itself can be part of a file name here.
func isPlainWord(word string) bool {
	return word != "" && len(word) <= 20 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// targetSystem is what the program runs on.
func (s HelperBinary) targetSystem() (goos, goarch string) {
	if s.goos == "" {
		return runtime.GOOS, runtime.GOARCH
	}
	return s.goos, s.goarch
}

// A noBinaryError says which programs were looked for, for a machine that is not ours.
type noBinaryError struct {
	files []string
	err   error // that of the first that is there but cannot be used; else of the last
}

func (e *noBinaryError) Error() string { return e.files[0] + ": " + innermost(e.err).Error() }
func (e *noBinaryError) Unwrap() error { return e.err }

// ForMachine is the program for a machine that calls itself so (uname -s -m).
func (s HelperBinary) ForMachine(uname string) (HelperBinary, error) {
	goos, goarch, ok := parseUname(uname)
	if !ok || s.Path == "" {
		return HelperBinary{}, fmt.Errorf("nothing of ours is for %q", uname)
	}
	name := filepath.Join("libexec", "remshell", "mpiexec-"+goos+"-"+goarch)
	dir := filepath.Dir(s.Path)
	missing := &noBinaryError{files: []string{filepath.Join(filepath.Dir(dir), name), filepath.Join(dir, name)}, err: fs.ErrNotExist}
	for _, file := range missing.files {
		if _, err := os.Stat(file); err != nil {
			missing.err = err
			continue
		}
		other, err := readBinary(file, file)
		if err != nil {
			return HelperBinary{}, err
		}
		s.Path, s.Build, s.Size, s.Open, s.buildLine, s.fileIdentity = other.Path, other.Build, other.Size, other.Open, other.buildLine, other.fileIdentity
		s.goos, s.goarch = goos, goarch
		return s, nil // with all that was said of ours
	}
	return HelperBinary{}, missing
}
