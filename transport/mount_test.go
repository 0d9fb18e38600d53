package transport

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// mounted returns a node with file systems of its own, in a mount namespace. The script mounts them below
// $HOME.
func mounted(t *testing.T, script string) *node {
	t.Helper()
	argv := []string{"unshare", "-m"}
	if os.Getuid() != 0 {
		argv = []string{"unshare", "-r", "-m"}
	}
	out, err := exec.Command(argv[0], append(argv[1:], "true")...).CombinedOutput()
	switch {
	case err != nil && (os.Getuid() == 0 || os.Getenv("CI") != ""):
		t.Fatalf("%v: %v %s", argv, err, out)
	case err != nil:
		t.Skipf("no namespaces without root here: %v %s", err, out)
	}
	return newNode(t, append(argv, "/bin/sh", "-c", "set -e; "+script+"; exec /bin/sh")...)
}

// A ten-byte file shows that nothing can be executed, before ten million bytes are sent.
func TestNoexecIsPassedOver(t *testing.T) {
	n := mounted(t, "mkdir -p $HOME/.cache; mount -t tmpfs -o noexec tmpfs $HOME/.cache")
	s := self(t)
	_, err := n.dial(t, s)
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindNoexec || !strings.Contains(e.Why, n.home+"/.cache/remshell: no program can be run there") {
		t.Errorf("error %v, want one of kind %s that names the folder", err, KindNoexec)
	}
	other := t.TempDir()
	s.nodeDirs = []string{other}
	n.reach(t, s, "sent").Close() // a directory that did not have the binary before
	n.reach(t, s, "cache").Close()
}

// The binary was stored over another mount, which allowed execution.
func TestCachedOnNoexec(t *testing.T) {
	s := self(t)
	plain := newNode(t, "/bin/sh")
	plain.reach(t, s, "sent").Close()
	n := mounted(t, "mount --bind $HOME/.cache $HOME/.cache; mount -o remount,bind,noexec $HOME/.cache")
	n.home = plain.home
	s.nodeDirs = []string{t.TempDir()}
	n.reach(t, s, "sent").Close()
}

// There is space for a small file, but not for the binary. The rest of the binary is not taken for a
// command.
func TestFullFileSystem(t *testing.T) {
	for name, size := range map[string]string{"nearly full": "1m", "full": "4k"} {
		t.Run(name, func(t *testing.T) {
			n := mounted(t, "mkdir -p $HOME/.cache; mount -t tmpfs -o size="+size+" tmpfs $HOME/.cache")
			s := self(t)
			_, err := n.dial(t, s)
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindStore || !strings.Contains(e.Why, n.home+"/.cache/remshell: ") {
				t.Fatalf("error %v, want one of kind %s that names the folder", err, KindStore)
			}
			s.nodeDirs = []string{t.TempDir()}
			conn, err := n.dial(t, s)
			check(t, err)
			if conn.Source() != "sent" {
				t.Errorf("source %s", conn.Source())
			}
			hello(t, conn, s.Build)
			echoes(t, conn)
		})
	}
}

func TestReadOnlyHome(t *testing.T) {
	n := mounted(t, "mount --bind $HOME $HOME; mount -o remount,bind,ro $HOME")
	s := self(t)
	if _, err := n.dial(t, s); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("error %v", err)
	}
	s.nodeDirs = []string{t.TempDir()}
	n.reach(t, s, "sent").Close()
}
