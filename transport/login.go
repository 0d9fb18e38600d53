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

// applyTo returns t with this login, which overrides the user's SSH configuration. The server's host key
// is as new as the job, so it cannot be known. The first key of HOST:PORT is accepted and recorded beside
// the private key, in the job's own directory. Later no other key is accepted there.
func (l SSHLogin) applyTo(t sshx.Target) sshx.Target {
	t.User, t.Port = l.User, l.Port
	t.Identities, t.Certificates, t.IdentitiesOnly = []string{l.Key}, nil, true
	t.UserKnownHosts, t.GlobalKnownHosts = []string{filepath.Join(filepath.Dir(l.Key), "known_hosts")}, nil
	t.KnownHostsCommand, t.VerifyDNS = sshx.HostsCommand{}, ""
	t.Strict, t.HostKeyAlias, t.HashKnownHosts, t.TrustLoopback, t.OfJob = "accept-new", "", false, false, true
	return t
}
