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
mpiexec of one architecture can start helpers on nodes of another if the binary for them is installed beside it:

	PREFIX/bin/mpiexec                              mpiexec, links resolved
	PREFIX/libexec/remshell/mpiexec-OS-ARCH         for other architectures; or below bin/ itself

The node's shell reports its architecture ("fail machine Linux aarch64"), and then gets a second script, in the same
session, for that binary.
*/

// unameWords maps each architecture to shell patterns. The patterns match the output of uname -m on machines that can
// run programs of that architecture. Architectures without an entry have the same name as in Go: riscv64, ppc64le,
// s390x.
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

// unamePattern returns a shell pattern for the output of uname -s -m on machines that can run programs of this
// operating system and architecture.
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

// parseUname converts the output of uname -s -m to Go's names of the operating system and architecture: "Linux
// aarch64" becomes linux and arm64. If such a machine can run programs of several architectures, it returns the
// preferred one.
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

// isPlainWord reports whether word, which a node has sent, is safe as part of a file name.
func isPlainWord(word string) bool {
	return word != "" && len(word) <= 20 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// targetSystem returns the operating system and architecture for which the binary is built.
func (s HelperBinary) targetSystem() (goos, goarch string) {
	if s.goos == "" {
		return runtime.GOOS, runtime.GOARCH
	}
	return s.goos, s.goarch
}

// A noBinaryError lists the files where a binary for another architecture was expected but not found.
type noBinaryError struct {
	files []string
	err   error // error of the last file
}

func (e *noBinaryError) Error() string { return e.files[0] + ": " + innermost(e.err).Error() }
func (e *noBinaryError) Unwrap() error { return e.err }

// ForMachine returns the binary for a machine on which uname -s -m prints uname.
func (s HelperBinary) ForMachine(uname string) (HelperBinary, error) {
	goos, goarch, ok := parseUname(uname)
	if !ok || s.Path == "" {
		return HelperBinary{}, fmt.Errorf("there is no mpiexec for hosts of type %q", uname)
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
		return s, nil // with the settings of the original
	}
	return HelperBinary{}, missing
}
