//go:build linux

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// A hintError is an error with what to do about it.
type hintError struct{ err, hint string }

func (e *hintError) Error() string { return e.err }
func (e *hintError) Hint() string  { return e.hint }

// ErrNeedsProcess is the error of Up for a field to be kept, where only the kind can be made
// that ends with its process.
var ErrNeedsProcess = errors.New("field: servers in this process cannot outlive it")

// chooseKind returns the kind asked for, if it can be made here, or the best that can.
func chooseKind(ctx context.Context, o Options) (Kind, error) {
	able := map[Kind]error{
		Namespaces: checkNamespaces(ctx),
		Loopback:   checkSSHD(),
		InProcess:  checkInProcess(o),
	}
	if o.Kind != Best {
		if _, known := able[o.Kind]; !known {
			return "", fmt.Errorf("field: unknown kind %q", o.Kind)
		}
		return o.Kind, able[o.Kind]
	}
	for _, kind := range []Kind{Namespaces, Loopback, InProcess} {
		if able[kind] == nil {
			return kind, nil
		}
	}
	return "", fmt.Errorf("field: none of the kinds can be made here: %w",
		errors.Join(able[Namespaces], able[Loopback], able[InProcess]))
}

// sshdPath returns "" when there is none. sshd insists on being started by its full name.
func sshdPath() string {
	for _, name := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "sshd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func checkSSHD() error {
	if sshdPath() == "" {
		return &hintError{"field: no sshd", "install openssh-server, or run as root: testdata/install.sh"}
	}
	return nil
}

func checkNamespaces(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return &hintError{"field: hosts with namespaces of their own need root", "run as root"}
	}
	if err := checkSSHD(); err != nil {
		return err
	}
	for _, tool := range []string{"unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			return &hintError{"field: no " + tool, "run: testdata/install.sh"}
		}
	}
	// Root of a container often may not.
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--uts", "--pid", "--ipc", "--mount", "--fork",
		"mount", "-t", "proc", "field", "/proc")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("field: cannot make namespaces here: %w: %s", err, out)
	}
	return nil
}

func checkInProcess(o Options) error {
	if o.Keep {
		return ErrNeedsProcess
	}
	return nil
}
