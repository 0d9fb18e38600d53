package transport

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestParseUname(t *testing.T) {
	for _, c := range []struct{ uname, want string }{
		{"Linux x86_64", "linux amd64"},
		{"Linux aarch64", "linux arm64"},
		{"Linux arm64", "linux arm64"},
		{"Linux riscv64", "linux riscv64"},
		{"Linux ppc64le", "linux ppc64le"},
		{"Linux armv7l", "linux arm"},
		{"Linux i686", "linux 386"},
		{"Darwin arm64", "darwin arm64"},
		{"FreeBSD amd64", "freebsd amd64"},
		{"Linux", ""},
		{"", ""},
		{"Linux ../../tmp/evil", ""},
		{"Linux x86_64 more", ""},
		{"Li/nux x86_64", ""},
	} {
		goos, goarch, ok := parseUname(c.uname)
		if got := goos + " " + goarch; ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.uname, got, ok, c.want)
		}
	}
}

// The node's shell must recognize the system that parseUname returns for a machine.
func TestParseUnameAgreesWithTheScript(t *testing.T) {
	for _, uname := range []string{"Linux x86_64", "Linux aarch64", "Linux riscv64", "Linux armv7l", "Linux loongarch64", "Darwin arm64"} {
		goos, goarch, _ := parseUname(uname)
		agrees := false
		for pattern := range strings.SplitSeq(unamePattern(goos, goarch), "|") {
			match, _ := filepath.Match(strings.ReplaceAll(pattern, `\ `, " "), uname)
			agrees = agrees || match
		}
		if !agrees {
			t.Errorf("%s is %s %s, whose shells would say %s", uname, goos, goarch, unamePattern(goos, goarch))
		}
	}
}

// foreign returns a launcher for another architecture, in a directory like an installed one. If beside is
// not empty, it is the place of the binary for this machine.
func foreign(t *testing.T, beside string) HelperBinary {
	t.Helper()
	prefix := must(filepath.EvalSymlinks(t.TempDir()))
	s := self(t)
	s.Build, s.Path = "of-another-machine-altogether", filepath.Join(prefix, "bin", "mpiexec")
	if beside != "" {
		dir := filepath.Join(prefix, beside)
		check(t, os.MkdirAll(dir, 0o755))
		program := must(os.ReadFile("/proc/self/exe"))
		check(t, os.WriteFile(filepath.Join(dir, "mpiexec-"+runtime.GOOS+"-"+runtime.GOARCH), program, 0o755))
	}
	return s
}

// hostIsAnother replaces the first script for a node by one for another architecture.
type hostIsAnother struct {
	helperLink
	replaced bool
}

func (l *hostIsAnother) Write(p []byte) (int, error) {
	if l.replaced {
		return l.helperLink.Write(p)
	}
	l.replaced = true
	_, err := io.WriteString(l.helperLink, strings.Replace(string(p), unamePattern(runtime.GOOS, runtime.GOARCH), `Linux\ vax`, 1))
	return len(p), err
}

// A node of another architecture gets its own binary in the same session, with every shell.
func TestNodeOfAnotherKind(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		for _, beside := range []string{"libexec/remshell", "bin/libexec/remshell"} {
			s := foreign(t, beside)
			conn, err := s.deliverIn(longContext(t), &hostIsAnother{helperLink: n.start(t)}, time.Minute)
			check(t, err)
			hello(t, conn, self(t).Build)
			echoes(t, conn)
			if conn.Build() != self(t).Build {
				t.Errorf("build %q, want %q", conn.Build(), self(t).Build)
			}
			conn.Close()
		}
	})
}

// The settings for sending the binary also hold for other architectures.
func TestProgramOfAnotherKindIsSentAsSaid(t *testing.T) {
	uname := strings.ReplaceAll(strings.Split(unamePattern(runtime.GOOS, runtime.GOARCH), "|")[0], `\`, "")
	for _, when := range []string{"never", "always"} {
		if other, err := foreign(t, "libexec/remshell").WithDelivery(when).ForMachine(uname); err != nil || other.delivery != when {
			t.Errorf("%s: it is sent %s, %v", when, other.delivery, err)
		}
	}
}

// A hint about the start-up files of the login shell also names those of the user's shell on nodes of
// another architecture.
func TestProgramOfAnotherKindKeepsTheLoginShell(t *testing.T) {
	uname := strings.ReplaceAll(strings.Split(unamePattern(runtime.GOOS, runtime.GOARCH), "|")[0], `\`, "")
	if other, err := foreign(t, "libexec/remshell").WithLoginShell("/bin/zsh").ForMachine(uname); err != nil || other.loginShell != "/bin/zsh" {
		t.Errorf("the login shell is %q, %v", other.loginShell, err)
	}
}

// Without that binary, the message names the file that was searched for.
func TestNodeOfAnotherKindWithoutItsProgram(t *testing.T) {
	s := foreign(t, "")
	_, err := s.deliverIn(longContext(t), &hostIsAnother{helperLink: newNode(t, "/bin/sh").start(t)}, time.Minute)
	file := filepath.Join(filepath.Dir(filepath.Dir(s.Path)), "libexec/remshell/mpiexec-"+runtime.GOOS+"-"+runtime.GOARCH)
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindMachine || !strings.Contains(e.Why, "and there is no "+file) || !strings.Contains(e.Remedy, "archive") {
		t.Errorf("error %v, want one about %s", err, file)
	}
}

// If the binary in that place is for another architecture after all, the result is an error, not an endless
// loop.
func TestNodeThatIsNeverContent(t *testing.T) {
	s := foreign(t, "libexec/remshell")
	p := newNode(t, "/bin/sh", "-c", `while read -r line; do case $line in "}") printf '\036remshell fail machine Linux x86_64\n'; esac; done`).start(t)
	_, err := s.deliverIn(longContext(t), p, time.Minute)
	var e *Error
	if runtime.GOARCH == "amd64" && (!errors.As(err, &e) || e.Kind != KindMachine || strings.Contains(e.Why, "there is no")) {
		t.Errorf("error %v, want one of kind %s", err, KindMachine)
	}
}
