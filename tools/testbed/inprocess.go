//go:build linux

package testbed

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"remshell/test/sshtest"
)

// upInProcess starts an SSH server for each host in this process. The cluster ends when the process ends.
func (f *Cluster) upInProcess(o Options) error {
	lock, err := f.lock()
	if err != nil {
		return err
	}
	f.owner.stop = append(f.owner.stop, lock.Close)
	if sid, err := unix.Getsid(0); err == nil && sid == os.Getpid() {
		f.ProcessGroup = sid // so that another process can take the cluster down
	}
	if err := f.addLoopbackHosts(o.Hosts); err != nil {
		return err
	}
	if err := f.aliasFiles(o); err != nil {
		return err
	}
	for _, h := range f.Hosts {
		if err := f.serve(o, h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return nil
}

// serve starts the SSH server of one host. stopOwned stops the server.
func (f *Cluster) serve(o Options, h Host) error {
	text, err := os.ReadFile(f.path("hosts", h.Name, "ssh_host_ed25519_key"))
	if err != nil {
		return err
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return err
	}
	text, err = os.ReadFile(f.path("home", ".ssh", "authorized_keys"))
	if err != nil {
		return err
	}
	user, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return err
	}
	server, err := sshtest.New(sshtest.Options{
		Addr:           net.JoinHostPort(h.Addr, fmt.Sprint(h.Port)),
		HostKeys:       []ssh.Signer{key},
		AuthorizedKeys: []ssh.PublicKey{user},
		Env:            []string{markName + "=" + f.markOf(h.Name), "HOME=" + f.hostHome(o, h.Name)},
		Dir:            f.hostHome(o, h.Name),
	})
	if err != nil {
		return err
	}
	f.owner.stop = append(f.owner.stop, func() error {
		if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}
