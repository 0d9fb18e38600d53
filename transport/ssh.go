package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"remshell/deadline"
	"remshell/sshx"
)

// SSH connects to hosts with the built-in SSH client. Each host has one connection with one session.
type SSH struct {
	Self      HelperBinary
	Dialer    *sshx.Dialer
	Shell     time.Duration                                                // time limit for each step after the login; 0 means 60 s
	Resolve   func(ctx context.Context, alias string) (sshx.Target, error) // looks a host up in the user's SSH configuration
	JobLogins func(name string) (SSHLogin, bool)                           // returns the login for a host where this job has an SSH server of its own; nil if no host has one
}

var _ Transport = (*SSH)(nil)

// Dial starts a helper on each of the hosts. The returned channel delivers one Result for each host.
func (s *SSH) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return DialEach(ctx, hosts, s.dial)
}

// Route returns the address, port, user and jump hosts that are used to reach a host. It leaves out an address
// that is equal to the host's name. So the result is the same for all hosts that are reached in the same way
// (rule DIAG-1).
func (s *SSH) Route(host Host) (string, error) {
	t, err := s.target(context.Background(), host)
	if err != nil {
		return "", err
	}
	text := "ssh"
	if !strings.EqualFold(t.HostName, host.Name) {
		text += " to " + t.HostName
	}
	if t.Port != 22 {
		text += fmt.Sprintf(" port %d", t.Port)
	}
	return text + " as " + t.User + routeText(t), nil
}

// routeText returns a phrase that describes the proxy command or jump hosts of a target.
func routeText(t sshx.Target) string {
	if t.ProxyCommand != "" {
		return " through " + t.ProxyCommand
	}
	text := ""
	for i, hop := range t.Via {
		text += map[bool]string{true: " through ", false: ", "}[i == 0] + hop.Alias
	}
	return text
}

// target looks a host up in the user's SSH configuration, by the name that the user wrote (rule SSH-1). Login
// settings of the host list override the configuration. If there are none and the host has an SSH server of
// this job, the login for that server (JobLogins) overrides the configuration.
func (s *SSH) target(ctx context.Context, host Host) (sshx.Target, error) {
	t, err := s.Resolve(ctx, host.alias())
	if err != nil {
		return t, err
	}
	if s.JobLogins != nil && host.User == "" && host.Port == 0 && host.Address == "" {
		if login, held := s.JobLogins(host.Name); held {
			return login.applyTo(t), nil
		}
	}
	return host.applyTo(t), nil
}

// dial connects to a host, logs in and starts the helper. Until the login is complete, the SSH client retries. It
// limits how many connections are attempted at the same time. After the login there are no retries (cli.md SSH-8).
func (s *SSH) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	target, err := s.target(ctx, host)
	if err != nil {
		return nil, err
	}
	target.Tracer = s.Self.tracer.forHost(host.Name)
	began := time.Now()
	client, err := s.Dialer.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	login := time.Since(began)
	times := stepTimeouts{shell: shellTimeout(s.Shell), others: shellTimeout(s.Shell), suspect: "the login shell"}
	limit := deadline.New(ctx, times.shell, errStepTimeout, nil)
	defer limit.Stop()
	started := s.Self.tracer.begin(host.Name, "session")
	session, err := startShell(limit.Context(), client, times.shell)
	started(err)
	if err != nil {
		client.Close()
		return nil, err
	}
	conn, err := s.Self.AtPath(host.Helper).deliver(limit, host.Name, &sshLink{session, client}, times)
	if err != nil {
		return nil, err
	}
	conn.login = login
	return conn, nil
}

func startShell(ctx context.Context, client *sshx.Client, timeout time.Duration) (*sshx.Session, error) {
	session, err := client.Start(ctx, shell)
	if err == nil || !errors.Is(err, errStepTimeout) {
		return session, err
	}
	return nil, &Error{Host: client.Target().Alias, Step: "session", Kind: KindShell,
		Why: fmt.Sprintf("the server did not start a session within %s", formatSeconds(timeout)), Remedy: "PAM or a file system may hang there; see the system log of its sshd", Err: errStepTimeout}
}

// An sshLink is an SSH session together with its connection. Each connection has only one session.
type sshLink struct {
	*sshx.Session
	client *sshx.Client
}

func (l *sshLink) stderr() string           { return l.Stderr() }
func (l *sshLink) verdict(exit int) Verdict { return Classify(l.Stderr(), exit) }

// Close closes the connection, which ends the session. The shell or helper on the node then reads end of file.
func (l *sshLink) Close() error { return l.client.Close() }

// localAddr returns the local address of the connection. It returns nil if the connection uses a jump host or proxy
// command, since the host could not reach that address.
func (l *sshLink) localAddr() net.Addr {
	if tcp, ok := l.client.LocalAddr().(*net.TCPAddr); ok && len(l.client.Target().Via) == 0 {
		return tcp
	}
	return nil
}

// silence returns how long the connection may be silent, according to the user's settings ServerAliveInterval
// and ServerAliveCountMax.
func (l *sshLink) silence() time.Duration {
	return l.client.Target().Silence()
}

func (l *sshLink) ended(limit time.Duration) linkEnd {
	status := make(chan error, 1)
	go func() { status <- l.Wait() }() // ends with the session, at the latest by Close
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case err = <-status:
	case <-timer.C:
		return linkEnd{exit: -1}
	}
	var exit *sshx.ExitError
	switch {
	case err == nil:
		return linkEnd{why: withLastLine(exitText(0), l.Stderr())}
	case errors.As(err, &exit) && exit.Signal != "":
		return linkEnd{exit: -1, why: withLastLine(exit.Error(), l.Stderr())}
	case errors.As(err, &exit):
		return linkEnd{exit: exit.Code, why: withLastLine(exitText(exit.Code), l.Stderr())}
	}
	// No status: the connection has broken, or the server closed the session.
	select {
	case <-l.client.Done():
		return connectionLost(l.client.Err())
	case <-timer.C:
		return linkEnd{exit: -1, why: withLastLine("the server closed the session", l.Stderr())}
	}
}

// connectionLost returns the linkEnd for a broken connection. The linkEnd contains the error text of the operating
// system if there is one, as in "ssh: connection reset by peer".
func connectionLost(err error) linkEnd {
	why := "the connection broke"
	var e *sshx.DialError
	if errors.As(err, &e) {
		why = e.Why
		switch {
		case errors.Is(e.Err, io.EOF):
			why = "the server closed the connection"
		case e.Err != nil:
			why = innermost(e.Err).Error()
		}
	}
	return linkEnd{exit: -1, why: "ssh: " + why, err: err}
}
