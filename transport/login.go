package transport

import (
	"path/filepath"

	"remshell/sshx"
)

// An SSHLogin is the login for an SSH server that was started on a host for this job alone (HTCondor's
// sshd.sh).
type SSHLogin struct {
	User string
	Port int
	Key  string // file of the private key
}

// applyTo overrides the user's SSH configuration with the login. The server's host key is as new as the
// job, so there is no known key to compare it with: the first key of HOST:PORT is accepted. It is recorded
// beside the private key, in the job's own directory. From then on no other key is accepted there.
func (l SSHLogin) applyTo(t sshx.Target) sshx.Target {
	t.User, t.Port = l.User, l.Port
	t.Identities, t.Certificates, t.IdentitiesOnly = []string{l.Key}, nil, true
	t.UserKnownHosts, t.GlobalKnownHosts = []string{filepath.Join(filepath.Dir(l.Key), "known_hosts")}, nil
	t.KnownHostsCommand, t.VerifyDNS = sshx.HostsCommand{}, ""
	t.Strict, t.HostKeyAlias, t.HashKnownHosts, t.TrustLoopback, t.OfJob = "accept-new", "", false, false, true
	return t
}
