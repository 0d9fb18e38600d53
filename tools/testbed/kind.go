//go:build linux

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// A hintError is an error with a hint about what the user can do.
type hintError struct{ err, hint string }

func (e *hintError) Error() string { return e.err }
func (e *hintError) Hint() string  { return e.hint }

// ErrNeedsProcess is returned by Up if Options.Keep is set but this machine allows only the kind InProcess, whose
// clusters end with the process.
var ErrNeedsProcess = errors.New("testbed: servers in this process cannot outlive it")

// chooseKind returns o.Kind, or an error if this machine does not allow that kind. If o.Kind is Best, it returns
// the first kind that this machine allows.
func chooseKind(ctx context.Context, o Options) (Kind, error) {
	problems := map[Kind]error{
		Namespaces: checkNamespaces(ctx),
		Loopback:   checkSSHD(),
		InProcess:  checkInProcess(o),
	}
	if o.Kind != Best {
		if _, known := problems[o.Kind]; !known {
			return "", fmt.Errorf("testbed: unknown kind %q", o.Kind)
		}
		return o.Kind, problems[o.Kind]
	}
	for _, kind := range []Kind{Namespaces, Loopback, InProcess} {
		if problems[kind] == nil {
			return kind, nil
		}
	}
	return "", fmt.Errorf("testbed: this machine allows no kind of test cluster: %w",
		errors.Join(problems[Namespaces], problems[Loopback], problems[InProcess]))
}

// sshdPath returns the full path of sshd, or "" if there is no sshd. sshd refuses to start without a full path.
func sshdPath() string {
	for _, name := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "sshd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// checkSSHD returns an error if this machine has no sshd.
func checkSSHD() error {
	if sshdPath() == "" {
		return &hintError{"testbed: no sshd", "install openssh-server, or run as root: testdata/install.sh"}
	}
	return nil
}

// checkNamespaces returns an error if this process cannot create the hosts' namespaces.
func checkNamespaces(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return &hintError{"testbed: hosts with namespaces of their own need root", "run as root"}
	}
	if err := checkSSHD(); err != nil {
		return err
	}
	for _, tool := range []string{"unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			return &hintError{"testbed: no " + tool, "run: testdata/install.sh"}
		}
	}
	// Root in a container often lacks the permission.
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--uts", "--pid", "--ipc", "--mount", "--fork",
		"mount", "-t", "proc", "field", "/proc")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("testbed: cannot make namespaces here: %w: %s", err, out)
	}
	return nil
}

// checkInProcess returns ErrNeedsProcess if the cluster must outlive this process.
func checkInProcess(o Options) error {
	if o.Keep {
		return ErrNeedsProcess
	}
	return nil
}
