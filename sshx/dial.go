package sshx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/ssh"

	"remshell/deadline"
)

// A Dialer connects to the hosts of one run of the program. Each field may have its zero value. The fields must not
// change after the first call of Dial. A Dialer must not be copied.
type Dialer struct {
	Log     zerolog.Logger
	Timeout time.Duration // for one attempt, from name look-up to login; 0: 10 s
	Retries int           // attempts at a busy server; 0: 4
	Pacer   *Pacer        // nil: the Dialer makes one with the default limits

	// AcceptNew records unknown host keys as StrictHostKeyChecking accept-new does, even if the
	// configuration does not set that.
	AcceptNew bool
	// Recorded, if not nil, is called once for each known_hosts file, after the first key was added to
	// it. file is its name for messages.
	Recorded func(file string)
	// Ask reads a passphrase from the user. If it is nil, no user can be asked. It is called for one key
	// at a time, and once for each key.
	Ask func(prompt string) ([]byte, error)

	// LookupSystem looks up a name that Lookup does not find, or finds too slowly. family is inet,
	// inet6 or any. If nil, only Lookup is used.
	LookupSystem func(ctx context.Context, family, host string) ([]netip.Addr, error)

	// Lookup and Connect replace the resolver and TCP in tests.
	Lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Connect func(ctx context.Context, network, address string) (net.Conn, error)

	recording sync.Mutex      // held while adding to a known_hosts file; guards added
	added     map[string]bool // known_hosts files that keys were added to
	asking    sync.Mutex      // held while asking the user

	mu        sync.Mutex // guards the fields below; never held while waiting
	pacer     *Pacer
	known     map[string]func() *knownFile
	keys      map[string]func() *keyFile
	agents    map[string]*keyAgent
	jumpHosts map[string]*jumpHost

	commandLimit time.Duration // time limit of KnownHostsCommand; 0: commandLimit
}

const (
	defaultTimeout = 10 * time.Second
	defaultRetries = 4
)

// errDeadline is the cause of a context whose time limit has passed. It distinguishes such a context from one that
// the caller has cancelled.
var errDeadline = errors.New("the host did not answer in time")

// Dial connects to a host and logs in. It waits for a permit from the Pacer, and retries if the server is busy. It
// returns at once when ctx is done. The error is a *DialError.
func (d *Dialer) Dial(ctx context.Context, t Target) (*Client, error) {
	t = t.withDefaults()
	if err := t.checkNames(); err != nil {
		return nil, newDialError(t, "config", KindConfig, "%v", err).withCause(err)
	}
	retries := d.Retries
	if retries <= 0 {
		retries = defaultRetries
	}
	for n := 1; ; n++ {
		c, err := d.attempt(ctx, t)
		if err == nil {
			return c, nil
		}
		d.Log.Debug().Str("host", t.Alias).Int("attempt", n).Err(err).AnErr("raw", err.Err).Msg("connect")
		again := err.IsRetryable() && n < retries || isUnanswered(err) && n < t.Attempts
		if !again {
			if n > 1 && err.Kind.IsDropped() {
				err.Why += fmt.Sprintf(", %d attempts", n)
			}
			return nil, err
		}
		paused := t.Tracer.begin("pause")
		select {
		case <-time.After(Backoff(n, rand.Float64())):
			paused(nil)
		case <-ctx.Done():
			canceled := d.timeout(ctx, t, err.Step, "")
			paused(canceled)
			return nil, canceled
		}
	}
}

// isUnanswered reports whether no TCP connection to the host could be made. In that case ConnectionAttempts
// allows another attempt.
func isUnanswered(e *DialError) bool {
	return (e.Kind == KindNoRoute || e.Kind == KindRefused) && e.Step == "connect"
}

// attempt tries once to connect to a host and to log in. The steps are: wait for the jump host, look the name up, get a
// permit from the Pacer, connect, log in.
func (d *Dialer) attempt(ctx context.Context, t Target) (*Client, *DialError) {
	jump, err := d.jumpHost(ctx, t)
	if err != nil {
		return nil, err
	}
	b := deadline.New(ctx, d.timeoutOf(t), errDeadline, nil)
	defer b.Stop()
	server := "via " + t.proxyKey()
	var addrs []netip.Addr
	if jump == nil && t.ProxyCommand == "" {
		if addrs, err = d.lookup(b, t); err != nil {
			return nil, err
		}
		server = netip.AddrPortFrom(addrs[0], uint16(t.Port)).String()
	}
	permit, err := d.waitForPermit(ctx, b, t, server)
	if err != nil {
		jump.release()
		return nil, err
	}
	c, err := d.connectAndLogIn(b, t, jump, addrs)
	direct := jump == nil && t.ProxyCommand == ""
	permit.Release(outcomeOf(err, direct), asError(err))
	if err != nil {
		jump.release()
		return nil, err
	}
	return c, nil
}

func asError(e *DialError) error {
	if e == nil {
		return nil
	}
	return e
}

// proxyKey identifies the jump host or proxy command of a target. It is "" if the target has neither.
func (t Target) proxyKey() string {
	if len(t.Via) > 0 {
		return t.lastJump().shareKey()
	}
	return t.ProxyCommand
}

// waitForPermit waits until the Pacer allows another connection to be set up. The time of this wait does not count
// towards the deadline b.
func (d *Dialer) waitForPermit(ctx context.Context, b *deadline.Deadline, t Target, server string) (*Permit, *DialError) {
	resume := b.Pause()
	defer resume()
	endWait := t.Tracer.begin("wait to connect")
	permit, err := d.usePacer().Acquire(ctx, server)
	endWait(err)
	var other *DialError
	switch {
	case err == nil:
		return permit, nil
	case errors.As(err, &other): // the error of another connection to this server
		same := *other
		same.Host = t.Alias
		return nil, &same
	}
	return nil, d.timeout(ctx, t, "connect", "")
}

func (d *Dialer) usePacer() *Pacer {
	if d.Pacer != nil {
		return d.Pacer
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pacer == nil {
		d.pacer = &Pacer{}
	}
	return d.pacer
}

// outcomeOf converts the result of an attempt to connect to an Outcome for the Pacer. direct is false if the connection
// uses a jump host or proxy command, which many hosts share. In that case, the failure of one host says nothing about
// the others.
func outcomeOf(err *DialError, direct bool) Outcome {
	switch {
	case err == nil:
		return LoggedIn
	case err.Kind.IsDropped():
		return Dropped
	case direct && err.Step == "connect" && (err.Kind == KindNoRoute || err.Kind == KindRefused),
		direct && err.Step == "handshake" && err.Kind == KindNoRoute:
		return Dead
	}
	return OwnFailure
}

// connectAndLogIn opens the connection that carries SSH, and logs in, within the deadline.
func (d *Dialer) connectAndLogIn(b *deadline.Deadline, t Target, jump *jumpHost, addrs []netip.Addr) (*Client, *DialError) {
	connected := t.Tracer.begin("connect")
	conn, err := d.openTransport(b, t, jump, addrs)
	connected(asError(err))
	if err != nil {
		return nil, err
	}
	w := newSSHConn(conn)
	// Closing the connection unblocks every step of the handshake, on any transport.
	unhook := context.AfterFunc(b.Context(), func() { conn.Close() })
	s := &connSetup{d: d, b: b, t: t, conn: w, step: "handshake", endStep: t.Tracer.begin("key exchange")}
	c, chans, reqs, fault := s.runHandshake()
	if !unhook() && fault == nil { // the deadline passed just as the login was done
		c.Close()
		fault = context.Cause(b.Context())
	}
	if fault != nil {
		err := s.explain(fault)
		if p, ok := conn.(*proxyConn); ok && err.Kind.IsDropped() {
			err = p.explainError(t, err)
		}
		conn.Close()
		s.endStep(err)
		return nil, err
	}
	s.endStep(nil)
	return newClient(d, t, c, w, chans, reqs, jump), nil
}

// openTransport opens the connection over which SSH runs: through the last jump host, through a proxy
// command, or by TCP.
func (d *Dialer) openTransport(b *deadline.Deadline, t Target, jump *jumpHost, addrs []netip.Addr) (net.Conn, *DialError) {
	switch {
	case jump != nil:
		return jump.open(b.Context(), d, t)
	case t.ProxyCommand != "":
		command, err := t.proxyCommand()
		if err != nil {
			return nil, newDialError(t, "config", KindConfig, "ProxyCommand: %v", err)
		}
		p, err := startProxy(command)
		if err != nil {
			return nil, newDialError(t, "connect", KindOther, "ProxyCommand cannot be started: %v", innermost(err)).withCause(err)
		}
		return p, nil
	}
	return d.connect(b, t, addrs)
}

// timeout returns the error for a step that ended because ctx is done. If the time limit has passed, the error
// contains reason. Otherwise the error says that the caller has cancelled the context.
func (d *Dialer) timeout(ctx context.Context, t Target, step, reason string) *DialError {
	if end := context.Cause(ctx); ctx.Err() != nil && !errors.Is(end, errDeadline) {
		return newDialError(t, step, KindCanceled, "cancelled: %v", end).withCause(end)
	}
	return newDialError(t, step, KindNoRoute, "%s in %s", reason, formatDuration(d.timeoutOf(t))).withCause(errDeadline)
}

func (d *Dialer) commandTimeout() time.Duration { return cmp.Or(d.commandLimit, commandLimit) }

func (d *Dialer) timeoutOf(t Target) time.Duration {
	switch {
	case t.ConnectTimeout > 0:
		return t.ConnectTimeout
	case d.Timeout > 0:
		return d.Timeout
	}
	return defaultTimeout
}

// formatDuration formats a duration as seconds or milliseconds, such as "10 s", "1.5 s" or "200 ms".
func formatDuration(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}

// cached returns the result of read for a name. It calls read only once for each name, even if many
// goroutines need the result.
func cached[T any](d *Dialer, m *map[string]func() T, name string, read func() T) T {
	d.mu.Lock()
	if *m == nil {
		*m = map[string]func() T{}
	}
	get := (*m)[name]
	if get == nil {
		get = sync.OnceValue(read)
		(*m)[name] = get
	}
	d.mu.Unlock()
	return get()
}

func (d *Dialer) knownFile(path string) *knownFile {
	return cached(d, &d.known, path, func() *knownFile {
		f, err := readKnownFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.Log.Warn().Err(err).Msg("known hosts")
		}
		return f
	})
}

// forgetKnownFile removes a known_hosts file from the cache, so that the file is read again.
func (d *Dialer) forgetKnownFile(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, path)
}

func (d *Dialer) keyFile(path string) *keyFile {
	return cached(d, &d.keys, path, func() *keyFile { return loadKey(path) })
}

// askUser returns a function that calls Ask, but never from two goroutines at the same time. It returns nil
// if Ask is nil.
func (d *Dialer) askUser() func(string) ([]byte, error) {
	if d.Ask == nil {
		return nil
	}
	return func(prompt string) ([]byte, error) {
		d.asking.Lock()
		defer d.asking.Unlock()
		return d.Ask(prompt)
	}
}

func (d *Dialer) keyAgent(socket string) *keyAgent {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents == nil {
		d.agents = map[string]*keyAgent{}
	}
	if d.agents[socket] == nil {
		d.agents[socket] = newKeyAgent(socket)
	}
	return d.agents[socket]
}

// Close closes the connections to ssh-agents. Clients stay open.
func (d *Dialer) Close() error {
	d.mu.Lock()
	agents := d.agents
	d.agents = nil
	d.mu.Unlock()
	for _, a := range agents {
		a.close()
	}
	return nil
}

var _ ssh.HostKeyCallback = (*hostKeyChecker)(nil).checkHostKey
