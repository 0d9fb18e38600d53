package transport

import (
	"path/filepath"

	"remshell/sshx"
)

// An SSHLogin says how to log in to an SSH server that was started on a host for one job only (HTCondor's
// sshd.sh).
type SSHLogin struct {
	User string
	Port int
	Key  string // file of the private key
}

// applyTo returns t with this login, which takes precedence over the user's SSH configuration. The server's host key
// cannot be known in advance, because it was created for this job. The first key of HOST:PORT is accepted and recorded
// beside the private key, in the job's own directory. Later connections to HOST:PORT accept only that key.
func (l SSHLogin) applyTo(t sshx.Target) sshx.Target {
	t.User, t.Port = l.User, l.Port
	t.Identities, t.Certificates, t.IdentitiesOnly = []string{l.Key}, nil, true
	t.UserKnownHosts, t.GlobalKnownHosts = []string{filepath.Join(filepath.Dir(l.Key), "known_hosts")}, nil
	t.KnownHostsCommand, t.VerifyDNS = sshx.HostsCommand{}, ""
	t.Strict, t.HostKeyAlias, t.HashKnownHosts, t.TrustLoopback, t.OfJob = "accept-new", "", false, false, true
	return t
}
