package sshx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"remshell/deadline"
)

// A connSetup is a connection on which the login is not complete.
type connSetup struct {
	d       *Dialer
	b       *deadline.Deadline
	t       Target
	conn    *sshConn
	step    string      // current step: handshake, host key or login
	endStep func(error) // ends the step in the target's Tracer
	login   *loginAttempt
	keys    *keyOffer
	banner  Tail // the server's banner
}

// runHandshake makes the SSH library perform all steps from the version exchange to the login.
func (s *connSetup) runHandshake() (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	if s.t.ProxyCommand != "" {
		s.conn.waitFirstByte() // the command may write to known_hosts before it connects
	}
	hk := s.d.newHostKeyChecker(s.t, s.b)
	algorithms, err := hk.algorithms()
	if err != nil {
		return nil, nil, nil, err
	}
	config := &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: s.t.Kex,
			Ciphers:      s.t.Ciphers,
			MACs:         s.t.MACs,
		},
		User:              s.t.User,
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			s.step = "host key"
			if err := hk.checkHostKey(name, remote, key); err != nil {
				return err
			}
			s.step = "login"
			if !s.conn.trusted.Swap(true) { // a second call is for a new key exchange, which follows after some data
				s.endStep(nil)
				s.endStep = s.t.Tracer.begin("authentication")
			}
			return nil
		},
		BannerCallback: func(message string) error {
			s.banner.Write([]byte(message))
			return nil
		},
		AuthCallback: func(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			if s.login == nil {
				s.prepareLogin()
			}
			return s.login.nextKey(c)
		},
	}
	return ssh.NewClientConn(s.conn, s.t.addr(), config)
}

// prepareLogin collects the keys to offer. It is called when the server asks for a login.
func (s *connSetup) prepareLogin() {
	t := s.t
	names := t.Identities
	if names == nil {
		names = defaultIdentities(t.Home)
	}
	k := &keyOffer{identitiesOnly: t.IdentitiesOnly, home: t.Tilde, ask: s.d.askUser(), now: time.Now()}
	for _, name := range names {
		k.files = append(k.files, s.d.keyFile(name))
	}
	for _, name := range t.Certificates {
		if cert, ok := s.d.keyFile(name).pub.(*ssh.Certificate); ok {
			k.certs = append(k.certs, cert)
		}
	}
	s.login = &loginAttempt{ctx: s.b.Context(), pause: s.b.Pause, allowed: t.PubkeyAlgorithms}
	if t.Agent != "" {
		k.agent = s.d.keyAgent(t.Agent)
		var err error
		if k.listed, err = k.agent.list(s.b.Context()); err != nil {
			s.d.Log.Debug().Err(err).Str("socket", t.Agent).Msg("agent")
			s.login.failed = err
		}
	}
	s.keys = k
	s.login.remaining = k.candidates()
}

// explain returns the DialError for an error of x/crypto/ssh. It takes into account the current step and the
// text that the server has sent.
func (s *connSetup) explain(err error) *DialError {
	var own *DialError
	var algos *ssh.AlgorithmNegotiationError
	switch text := err.Error(); {
	case errors.As(err, &own): // from the host key check
		return own
	case s.b.Context().Err() != nil:
		return s.timeoutError()
	case errors.As(err, &algos):
		return newDialError(s.t, "handshake", KindMismatch, "%s: the client accepts %s; the server offers %s", mismatchText(algos.What),
			strings.Join(realAlgos(algos.SupportedAlgorithms), ","), quoteUntrusted(strings.Join(realAlgos(algos.RequestedAlgorithms), ","))).
			withCause(err).withHint("%s", adviceFor(algos, s.t.configName()))
	case strings.Contains(strings.ToLower(text), "too many authentication"): // the server's limit on failures, or the library's limit of 64 attempts
		return newDialError(s.t, "login", KindTooMany, "too many authentication failures%s", s.triedKeys()).withCause(err)
	case errors.Is(err, errNoMoreKeys):
		return s.loginError(err)
	case errors.Is(err, errTooMuchUntrusted):
		return newDialError(s.t, s.step, KindMismatch, "the server sent more than %d KiB before its host key", maxUntrusted>>10).withCause(err)
	case isBroken(err) || strings.Contains(text, disconnected):
		return s.brokenError(err)
	case s.step == "handshake" && !strings.HasPrefix(s.conn.peerGreeting(), "SSH-"):
		return noServerError(s.conn.peerGreeting(), s.t).withDetails("%s", s.t.addr()).withCause(err)
	}
	return newDialError(s.t, s.step, KindMismatch, "%s", strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")).withCause(err)
}

// disconnected is the start of the error text of x/crypto/ssh for SSH_MSG_DISCONNECT. x/crypto/ssh exports no
// type for that error.
const disconnected = "ssh: disconnect, reason "

// mismatchText returns the reason for a failed key exchange in which client and server share no algorithm of this kind.
func mismatchText(kind string) string {
	if kind == "host key" {
		return "the server has no host key of an accepted type"
	}
	return "client and server have no " + kind + " in common"
}

// realAlgos returns names without the names that only announce extensions and are not algorithms (RFC 8308).
func realAlgos(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return strings.HasPrefix(name, "ext-info-") || strings.HasPrefix(name, "kex-strict-")
	})
}

// adviceFor returns a hint with a line for ssh_config that allows an algorithm which the server supports. The
// hint is empty if x/crypto/ssh supports none of the server's algorithms.
func adviceFor(e *ssh.AlgorithmNegotiationError, config string) string {
	keyword, known := algorithmKeyword(e.What)
	for _, name := range e.RequestedAlgorithms {
		if slices.Contains(known, name) {
			return fmt.Sprintf("update the server, or write this option for the host into %s: %s +%s", config, keyword, name)
		}
	}
	return "update the server, or use -launcher-exec ssh"
}

// algorithmKeyword returns the ssh_config keyword for a kind of algorithm, and the algorithms of that kind that
// x/crypto/ssh supports.
func algorithmKeyword(kind string) (keyword string, known []string) {
	good, old := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	switch {
	case strings.Contains(kind, "key exchange"):
		return "KexAlgorithms", slices.Concat(good.KeyExchanges, old.KeyExchanges)
	case strings.Contains(kind, "host key"):
		return "HostKeyAlgorithms", slices.Concat(good.HostKeys, old.HostKeys)
	case strings.Contains(kind, "cipher"):
		return "Ciphers", slices.Concat(good.Ciphers, old.Ciphers)
	}
	return "MACs", slices.Concat(good.MACs, old.MACs)
}

// isBroken reports whether an error means that the connection has ended.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (s *connSetup) timeoutError() *DialError {
	why := "the server accepted the connection but sent nothing"
	switch {
	case s.step == "login":
		why = "the login did not finish"
	case s.conn.peerGreeting() != "":
		why = "the key exchange did not finish"
	}
	return s.d.timeout(s.b.Context(), s.t, s.step, why).withDetails("%s", s.t.addr()).
		withHint("the host may be overloaded, or may wait for PAM or a user database; to see how far the login gets, run: ssh -v %s true", s.t.Alias)
}

// brokenError returns the error for a connection that the server has closed. A server with too many connections either
// closes the connection silently, or sends a message in place of its version, such as "Exceeded MaxStartups". A server
// that closes the connection after sending its version has another reason, for example that it has no usable host key.
func (s *connSetup) brokenError(err error) *DialError {
	_, word, found := strings.Cut(err.Error(), disconnected)
	if found { // 2: "text"
		_, word, _ = strings.Cut(word, ": ")
		if text, err := strconv.Unquote(word); err == nil {
			word = text
		}
	}
	greeting := s.conn.peerGreeting()
	switch {
	case s.login != nil:
		why := "the server ended the connection during the login"
		if word != "" {
			why += ": " + word
		}
		return newDialError(s.t, "login", KindLogin, "%s%s", why, s.triedKeys()).withDetails("%s", s.banner.Line()).withCause(err)
	case word != "":
		return newDialError(s.t, s.step, KindMismatch, "the server refused the connection: %s", quoteUntrusted(word)).withCause(err)
	}
	return closedError(greeting, s.t, s.step).withDetails("%s", s.t.addr()).withCause(err)
}

// closedError returns the error for a connection that the server closed before it asked the client to log in. greeting
// is the text that the server had sent.
func closedError(greeting string, t Target, step string) *DialError {
	switch {
	case greeting == "":
		return newDialError(t, step, KindClosed, "the server closed the connection before the login")
	case strings.HasPrefix(greeting, "SSH-"):
		return newDialError(t, step, KindClosed, "the server closed the connection during the key exchange").
			withHint("see the log of sshd on the host; perhaps sshd has no host key that HostKeyAlgorithms in sshd_config allows")
	case strings.Contains(greeting, "MaxStartups"):
		return newDialError(t, step, KindBusy, "the server is busy: too many logins at once (MaxStartups)")
	case strings.Contains(greeting, "Not allowed at this time"):
		return newDialError(t, step, KindBusy, "the server takes no connections from here for some time (PerSourcePenalties)").
			withHint("wait until sshd accepts connections again; PerSourcePenalties in sshd_config on the host sets how long this takes")
	}
	return noServerError(greeting, t)
}

func noServerError(greeting string, t Target) *DialError {
	greeting, _, _ = strings.Cut(greeting, "\n")
	return newDialError(t, "handshake", KindMismatch, "not an ssh server; it answered %s", quoteUntrusted(strings.TrimSpace(greeting)))
}

// quoteUntrusted quotes text from a peer whose host key was not accepted. As such a peer may be anybody (rule
// TRUST-22), the result says that the text is not authenticated.
func quoteUntrusted(text string) string {
	const most = 256
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Sprintf("%q (not authenticated)", text)
}

// loginError returns the error for a login that failed because the server accepted no key.
func (s *connSetup) loginError(err error) *DialError {
	why := "login refused for user " + s.t.User
	offers := strings.Join(s.login.methods, ", ")
	switch {
	case s.login.partialSuccess:
		why = "the server accepted the key, but it also requires " + offers
	case !strings.Contains(offers, "publickey"):
		why += ": the server does not accept keys, only " + offers
	}
	e := newDialError(s.t, "login", KindLogin, "%s%s", why, s.triedKeys()).withCause(errors.Join(s.login.failed, err))
	if text := s.banner.Line(); text != "" {
		e.withDetails("%s", text)
	}
	var h interface{ Hint() string }
	if errors.As(s.login.failed, &h) {
		e.remedy = h.Hint()
	}
	return e
}

// triedKeys returns a string that lists the keys that were offered, and says why other keys were not offered.
func (s *connSetup) triedKeys() string {
	if s.login == nil {
		return ""
	}
	text := "; there is no key to try"
	if len(s.login.tried) > 0 {
		text = "; tried " + strings.Join(s.login.tried, ", ")
	}
	for _, note := range s.keys.unusableKeys(s.t.Identities != nil) {
		text += "; " + note
	}
	if s.login.failed != nil && !errors.Is(s.login.failed, context.Canceled) {
		text += "; " + s.login.failed.Error()
	}
	return text
}
