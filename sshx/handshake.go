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

// A setup is one connection on its way to being logged in.
type setup struct {
	d     *Dialer
	b     *deadline.Deadline
	t     Target
	wire  *wire
	step  string      // handshake, host key, login; how far it came
	ended func(error) // of the step, as the target's Watch has it
	login *login
	keys  *keys
	said  Tail // the server's banner
}

// handshake runs the library's client to the end of the login.
func (s *setup) handshake() (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	if s.t.ProxyCommand != "" {
		s.wire.await() // what the command writes to known_hosts it has written when it is connected
	}
	hk := s.d.hostKeys(s.t, s.b)
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
			if err := hk.check(name, remote, key); err != nil {
				return err
			}
			s.step = "login"
			if !s.wire.trusted.Swap(true) { // or keys are exchanged anew, as they are after some data
				s.ended(nil)
				s.ended = s.t.Watch.begin("authentication")
			}
			return nil
		},
		BannerCallback: func(message string) error {
			s.said.Write([]byte(message))
			return nil
		},
		AuthCallback: func(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			if s.login == nil {
				s.prepareLogin()
			}
			return s.login.next(c)
		},
	}
	return ssh.NewClientConn(s.wire, s.t.addr(), config)
}

// prepareLogin gathers the keys, once the server has said that it wants some.
func (s *setup) prepareLogin() {
	t := s.t
	names := t.Identities
	if names == nil {
		names = defaultIdentities(t.Home)
	}
	k := &keys{only: t.IdentitiesOnly, home: t.Tilde, ask: s.d.asker(), now: time.Now()}
	for _, name := range names {
		k.files = append(k.files, s.d.keyFile(name))
	}
	for _, name := range t.Certificates {
		if cert, ok := s.d.keyFile(name).pub.(*ssh.Certificate); ok {
			k.certs = append(k.certs, cert)
		}
	}
	s.login = &login{ctx: s.b.Context(), pause: s.b.Pause, allowed: t.PubkeyAlgorithms}
	if t.Agent != "" {
		k.agent = s.d.agent(t.Agent)
		var err error
		if k.listed, err = k.agent.list(s.b.Context()); err != nil {
			s.d.Log.Debug().Err(err).Str("socket", t.Agent).Msg("agent")
			s.login.failed = err
		}
	}
	s.keys = k
	s.login.todo = k.candidates()
}

// explain finds out from an error, from how far we came and from what the
// server said, what happened.
func (s *setup) explain(err error) *DialError {
	var own *DialError
	var algos *ssh.AlgorithmNegotiationError
	switch text := err.Error(); {
	case errors.As(err, &own): // the host key check's
		return own
	case s.b.Context().Err() != nil:
		return s.late()
	case errors.As(err, &algos):
		return fail(s.t, "handshake", KindMismatch, "%s: accepted are %s; it says %s", unmatched(algos.What),
			strings.Join(realAlgos(algos.SupportedAlgorithms), ","), quoteStranger(strings.Join(realAlgos(algos.RequestedAlgorithms), ","))).
			because(err).hint("%s", adviceFor(algos, s.t.configName()))
	case strings.Contains(strings.ToLower(text), "too many authentication"): // failures, or our library's 64 attempts
		return fail(s.t, "login", KindTooMany, "too many authentication failures%s", s.tried()).because(err)
	case errors.Is(err, errNoMoreKeys):
		return s.refused(err)
	case errors.Is(err, errTooMuch):
		return fail(s.t, s.step, KindMismatch, "it sends more than %d KiB before its key is known", strangerMax>>10).because(err)
	case broken(err) || strings.Contains(text, disconnected):
		return s.broken(err)
	case s.step == "handshake" && !strings.HasPrefix(s.wire.greeting(), "SSH-"):
		return noServer(s.wire.greeting(), s.t).at("%s", s.t.addr()).because(err)
	}
	return fail(s.t, s.step, KindMismatch, "%s", strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")).because(err)
}

// disconnected is how the library tells a message of type SSH_MSG_DISCONNECT,
// for which it has no public type.
const disconnected = "ssh: disconnect, reason "

// unmatched says what the library's name of a choice without a common algorithm means.
func unmatched(what string) string {
	if what == "host key" {
		return "the server has no host key of an accepted type"
	}
	return "no " + what + " in common"
}

// realAlgos leaves out the names in a list for key exchange that are no algorithms but announce extensions (RFC 8308).
func realAlgos(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return strings.HasPrefix(name, "ext-info-") || strings.HasPrefix(name, "kex-strict-")
	})
}

// adviceFor names the line of ssh_config by which the client takes an algorithm that the server has, if it knows one.
func adviceFor(e *ssh.AlgorithmNegotiationError, config string) string {
	keyword, known := choice(e.What)
	for _, name := range e.RequestedAlgorithms {
		if slices.Contains(known, name) {
			return fmt.Sprintf("update the server, or set for this host in %s: %s +%s", config, keyword, name)
		}
	}
	return "update the server, or use -launcher-exec ssh"
}

// choice is the keyword of ssh_config for what the library negotiates, and all algorithms that it knows for it.
func choice(what string) (keyword string, known []string) {
	good, old := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	switch {
	case strings.Contains(what, "key exchange"):
		return "KexAlgorithms", slices.Concat(good.KeyExchanges, old.KeyExchanges)
	case strings.Contains(what, "host key"):
		return "HostKeyAlgorithms", slices.Concat(good.HostKeys, old.HostKeys)
	case strings.Contains(what, "cipher"):
		return "Ciphers", slices.Concat(good.Ciphers, old.Ciphers)
	}
	return "MACs", slices.Concat(good.MACs, old.MACs)
}

// broken says that the connection ended under us.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (s *setup) late() *DialError {
	why := "the server accepts connections but does not speak"
	switch {
	case s.step == "login":
		why = "the login was not finished"
	case s.wire.greeting() != "":
		why = "the key exchange was not finished"
	}
	return s.d.timeout(s.b.Context(), s.t, s.step, why).at("%s", s.t.addr()).
		hint("see how far it comes: ssh -v %s true; the host may be overloaded, or wait for PAM or a user database", s.t.Alias)
}

// broken explains a connection that the server has ended. If it has too many, OpenSSH says so instead of its version
// ("Exceeded MaxStartups", and "Not allowed at this time" under PerSourcePenalties), or closes it in silence. One that
// closes it behind its version has another reason, such as no host key that it may use.
func (s *setup) broken(err error) *DialError {
	_, word, found := strings.Cut(err.Error(), disconnected)
	if found { // 2: "text"
		_, word, _ = strings.Cut(word, ": ")
		if text, err := strconv.Unquote(word); err == nil {
			word = text
		}
	}
	said := s.wire.greeting()
	switch {
	case s.login != nil:
		why := "the server ended the connection during the login"
		if word != "" {
			why += ": " + word
		}
		return fail(s.t, "login", KindLogin, "%s%s", why, s.tried()).at("%s", s.said.Line()).because(err)
	case word != "":
		return fail(s.t, s.step, KindMismatch, "the server refuses: it says %s", quoteStranger(word)).because(err)
	}
	return closed(said, s.t, s.step).at("%s", s.t.addr()).because(err)
}

// closed is the error of a connection that the server has ended before it asked for a key, by what it had said.
func closed(said string, t Target, step string) *DialError {
	switch {
	case said == "":
		return fail(t, step, KindClosed, "the server closed the connection before the login")
	case strings.HasPrefix(said, "SSH-"):
		return fail(t, step, KindClosed, "the server closed the connection during the key exchange").
			hint("the log of its sshd says why; has it a host key that its HostKeyAlgorithms allow?")
	case strings.Contains(said, "MaxStartups"):
		return fail(t, step, KindBusy, "the server is busy: too many connections are not logged in (MaxStartups)")
	case strings.Contains(said, "Not allowed at this time"):
		return fail(t, step, KindBusy, "the server takes no connections from here for some time (PerSourcePenalties)").
			hint("wait a minute; how long it takes stands in PerSourcePenalties of its sshd_config")
	}
	return noServer(said, t)
}

func noServer(said string, t Target) *DialError {
	said, _, _ = strings.Cut(said, "\n")
	return fail(t, "handshake", KindMismatch, "not an ssh server: it says %s", quoteStranger(strings.TrimSpace(said)))
}

// quoteStranger quotes what a peer has said whose key was not accepted, which may be anybody
// (TRUST-22).
func quoteStranger(text string) string {
	const most = 256
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Sprintf("%q (not authenticated)", text)
}

// refused explains that no key was good enough.
func (s *setup) refused(err error) *DialError {
	why := "login refused for user " + s.t.User
	offers := strings.Join(s.login.methods, ", ")
	switch {
	case s.login.partly:
		why = "the server wants more than a key: " + offers
	case !strings.Contains(offers, "publickey"):
		why += ": the server takes no keys, only " + offers
	}
	e := fail(s.t, "login", KindLogin, "%s%s", why, s.tried()).because(errors.Join(s.login.failed, err))
	if said := s.said.Line(); said != "" {
		e.at("%s", said)
	}
	var h interface{ Hint() string }
	if errors.As(s.login.failed, &h) {
		e.remedy = h.Hint()
	}
	return e
}

// tried lists the keys that were offered and what was wrong with others.
func (s *setup) tried() string {
	if s.login == nil {
		return ""
	}
	text := "; no key to try"
	if len(s.login.tried) > 0 {
		text = "; tried " + strings.Join(s.login.tried, ", ")
	}
	for _, note := range s.keys.unusable(s.t.Identities != nil) {
		text += "; " + note
	}
	if s.login.failed != nil && !errors.Is(s.login.failed, context.Canceled) {
		text += "; " + s.login.failed.Error()
	}
	return text
}
