package sshx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	hk := s.d.hostKeys(s.t)
	config := &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: s.t.Kex,
			Ciphers:      s.t.Ciphers,
			MACs:         s.t.MACs,
		},
		User:              s.t.User,
		HostKeyAlgorithms: hk.algorithms(),
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
	k := &keys{only: t.IdentitiesOnly, home: t.Home, ask: s.d.asker(), now: time.Now()}
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
		return fail(s.t, "handshake", KindMismatch, "no %s in common: we offer %s; %s", algos.What,
			strings.Join(algos.SupportedAlgorithms, ","), s.says(strings.Join(algos.RequestedAlgorithms, ","))).
			because(err).hint("set %s for this host in ~/.ssh/config", keywordFor(algos.What))
	case strings.Contains(strings.ToLower(text), "too many authentication"): // failures, or our library's 64 attempts
		return fail(s.t, "login", KindTooMany, "too many authentication failures%s", s.tried()).because(err)
	case errors.Is(err, errNoMoreKeys):
		return s.refused(err)
	case errors.Is(err, errTooMuch):
		return fail(s.t, s.step, KindMismatch, "it sends more than %d KiB before its key is known", strangerMax>>10).because(err)
	case broken(err) || strings.Contains(text, disconnected):
		return s.broken(err)
	case s.step == "handshake" && !strings.HasPrefix(s.wire.greeting(), "SSH-"):
		return s.noServer(err)
	}
	return fail(s.t, s.step, KindMismatch, "%s", strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")).because(err)
}

// disconnected is how the library tells a message of type SSH_MSG_DISCONNECT,
// for which it has no public type.
const disconnected = "ssh: disconnect, reason "

func keywordFor(what string) string {
	switch {
	case strings.Contains(what, "key exchange"):
		return "KexAlgorithms"
	case strings.Contains(what, "host key"):
		return "HostKeyAlgorithms"
	case strings.Contains(what, "cipher"):
		return "Ciphers"
	case strings.Contains(what, "public key"):
		return "PubkeyAcceptedAlgorithms"
	}
	return "MACs"
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
	return s.d.timeout(s.b.Context(), s.t, s.step, why).at("%s", s.t.addr())
}

// broken explains a connection that the server has ended. Before it has asked
// for a key, it had too many others; OpenSSH may say so instead of its version
// ("Exceeded MaxStartups", "Not allowed at this time").
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
		return fail(s.t, s.step, KindMismatch, "the server refuses: %s", s.says(word)).because(err)
	case said != "" && !strings.HasPrefix(said, "SSH-") && !strings.Contains(said, "MaxStartups") && !strings.Contains(said, "Not allowed"):
		return s.noServer(err)
	}
	return fail(s.t, s.step, KindBusy, "the server is busy: it closed the connection before the login (MaxStartups)").
		at("%s", s.t.addr()).because(err)
}

func (s *setup) noServer(err error) *DialError {
	said, _, _ := strings.Cut(s.wire.greeting(), "\n")
	return fail(s.t, "handshake", KindMismatch, "not an ssh server: %s", s.says(strings.TrimSpace(said))).
		at("%s", s.t.addr()).because(err)
}

// says tells what a peer has said whose key was not accepted, which may be anybody
// (TRUST-22).
func (s *setup) says(text string) string {
	const most = 256
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Sprintf("%s says %q (not authenticated)", s.t.Alias, text)
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
