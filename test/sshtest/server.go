/*
Package sshtest is an SSH server for tests and for machines without sshd, as net/http/httptest is for HTTP.

	s, err := sshtest.New(sshtest.Options{AuthorizedKeys: []ssh.PublicKey{pub}})
	defer s.Close()
	os.WriteFile(knownHosts, []byte(s.KnownHosts()), 0o600)
	// connect to s.Addr()

It really runs commands, with /bin/sh -c. Options make it behave like faulty or overloaded servers: slow, silent, or
with a changed key. Unlike sshd, it does not change the user: whoever has an authorized key acts as the user that
the server runs as, whatever login name the client sends. So it must not listen where others can reach it.
*/
package sshtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Options say how a server behaves. The zero value is a server without faults that refuses all logins, since it has
// no authorized key.
type Options struct {
	Addr           string          // to listen on; empty: 127.0.0.1 and a free port
	HostKeys       []ssh.Signer    // empty: a new ed25519 key; may be certificates
	AuthorizedKeys []ssh.PublicKey // keys that may log in
	UserCAs        []ssh.PublicKey // CAs whose certificates may log in, as the users named in them
	Users          []string        // login names; empty: any

	Env []string // of commands, after HOME, PATH and such; later entries win
	Dir string   // home directory of commands; empty: the server's own

	Forward          bool   // direct-tcpip: be a jump host
	Noise            string // printed to stdout before each command, as a login script may
	Banner           string // sent before the login
	NoSession        bool   // open no sessions
	IgnoreKeepAlives bool   // leave keep-alives unanswered
	RefuseAll        bool   // refuse all logins
	NoExitCode       bool   // close sessions without an exit status

	SilentFrom  SilentPoint   // send nothing after this point
	LoginDelay  time.Duration // before a login is granted
	DropFirst   int           // number of connections that are closed immediately
	MaxStartups int           // connections not logged in before more are dropped; 0: no limit
	DropText    string        // sent before a connection is dropped, such as "Exceeded MaxStartups\r\n"

	// Config, if not nil, may change the configuration of package ssh.
	Config func(*ssh.ServerConfig)
}

// A SilentPoint is the point of a connection after which a server sends nothing.
type SilentPoint int

const (
	NeverSilent   SilentPoint = iota
	BeforeVersion             // accepts a TCP connection, and sends nothing
	AfterVersion              // sends its version, but exchanges no keys
)

// Stats count connections, logins and keep-alives of a server.
type Stats struct {
	Accepted, Dropped, LoggedIn int
	Peak                        int // connections that were not logged in, at most
	Forwarded                   int
	Alive                       int      // keep-alives received
	Tried                       []string // fingerprints of the keys clients have offered
}

// A Server is an SSH server that listens until Close.
type Server struct {
	opts   Options
	config *ssh.ServerConfig
	ln     net.Listener // nil: only ServeConn is used

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // connections

	mu      sync.Mutex // guards what follows
	conns   map[net.Conn]bool
	pending int // not logged in
	stats   Stats
}

// New starts a server that listens on opts.Addr.
func New(opts Options) (*Server, error) {
	s, err := NewUnlistened(opts)
	if err != nil {
		return nil, err
	}
	addr := opts.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	if s.ln, err = net.Listen("tcp", addr); err != nil {
		return nil, err
	}
	s.wg.Go(s.accept)
	return s, nil
}

// NewUnlistened returns a server that does not listen. It serves only connections that are passed to ServeConn.
func NewUnlistened(opts Options) (*Server, error) {
	if len(opts.HostKeys) == 0 {
		opts.HostKeys = []ssh.Signer{NewKey()}
	}
	s := &Server{opts: opts, conns: map[net.Conn]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.config = s.serverConfig()
	if opts.Config != nil {
		opts.Config(s.config)
	}
	return s, nil
}

// NewKey returns a new ed25519 key.
func NewKey() ssh.Signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // no randomness
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		panic(err)
	}
	return signer
}

func (s *Server) serverConfig() *ssh.ServerConfig {
	checker := &ssh.CertChecker{
		IsUserAuthority: func(ca ssh.PublicKey) bool { return contains(s.opts.UserCAs, ca) },
		UserKeyFallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !contains(s.opts.AuthorizedKeys, key) {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	c := &ssh.ServerConfig{
		MaxAuthTries: 3, // and as many rejected keys before they count: 6, as sshd's
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			s.updateStats(func(st *Stats) { st.Tried = append(st.Tried, ssh.FingerprintSHA256(key)) })
			select {
			case <-time.After(s.opts.LoginDelay):
			case <-s.ctx.Done():
			}
			if s.opts.RefuseAll || len(s.opts.Users) > 0 && !slices.Contains(s.opts.Users, m.User()) {
				return nil, errors.New("not allowed")
			}
			return checker.Authenticate(m, key)
		},
	}
	if s.opts.Banner != "" {
		c.BannerCallback = func(ssh.ConnMetadata) string { return s.opts.Banner }
	}
	for _, k := range s.opts.HostKeys {
		c.AddHostKey(k)
	}
	return c
}

func contains(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

// Addr returns the address of the server, HOST:PORT.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Port returns the TCP port of the server.
func (s *Server) Port() int { return s.ln.Addr().(*net.TCPAddr).Port }

// HostKey returns the first host key of the server.
func (s *Server) HostKey() ssh.PublicKey { return s.opts.HostKeys[0].PublicKey() }

// KnownHosts returns the lines of a known_hosts file for the server, one for each host key.
func (s *Server) KnownHosts() string {
	host, port, _ := net.SplitHostPort(s.Addr())
	var b strings.Builder
	for _, k := range s.opts.HostKeys {
		pub := k.PublicKey()
		if cert, ok := pub.(*ssh.Certificate); ok {
			pub = cert.Key
		}
		fmt.Fprintf(&b, "[%s]:%s %s %s\n", host, port, pub.Type(), base64.StdEncoding.EncodeToString(pub.Marshal()))
	}
	return b.String()
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Tried = slices.Clone(st.Tried)
	return st
}

func (s *Server) updateStats(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// CloseConnections closes all connections. The server goes on listening.
func (s *Server) CloseConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Close stops listening, closes all connections and waits for their goroutines. As with sshd, commands only see the
// end of their input. Close does not wait for them.
func (s *Server) Close() error {
	s.cancel()
	var err error
	if s.ln != nil {
		err = s.ln.Close()
	}
	s.CloseConnections()
	s.wg.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.ServeConn(c) })
	}
}

// ServeConn serves one connection until it ends.
func (s *Server) ServeConn(c net.Conn) {
	defer c.Close()
	if !s.admit(c) {
		return
	}
	defer s.wg.Done()
	stop := context.AfterFunc(s.ctx, func() { c.Close() })
	defer stop()
	defer s.removeConn(c)
	login := sync.OnceFunc(func() { s.updateStats(func(*Stats) { s.pending-- }) })
	defer login()
	switch s.opts.SilentFrom {
	case AfterVersion:
		fmt.Fprint(c, "SSH-2.0-silent\r\n")
		fallthrough
	case BeforeVersion:
		drain(c)
		return
	}
	conn, chans, reqs, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return
	}
	login()
	s.updateStats(func(st *Stats) { st.LoggedIn++ })
	s.serve(conn, chans, reqs)
}

// drain reads and ignores data until the client closes the connection.
func drain(c net.Conn) {
	buf := make([]byte, 512)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// admit counts a connection. It returns false if the connection is dropped.
func (s *Server) admit(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Accepted++
	full := s.opts.MaxStartups > 0 && s.pending >= s.opts.MaxStartups
	if s.stats.Accepted <= s.opts.DropFirst || full || s.ctx.Err() != nil {
		s.stats.Dropped++
		fmt.Fprint(c, s.opts.DropText)
		return false
	}
	s.wg.Add(1) // under mu, so that it never comes after Close's Wait
	s.pending++
	s.stats.Peak = max(s.stats.Peak, s.pending)
	s.conns[c] = true
	return true
}

func (s *Server) removeConn(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// serve handles the requests and channels of a client that is logged in.
func (s *Server) serve(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	s.wg.Go(func() {
		for r := range reqs {
			s.updateStats(func(st *Stats) { st.Alive++ })
			if r.WantReply && !s.opts.IgnoreKeepAlives {
				r.Reply(false, nil)
			}
		}
	})
	for ch := range chans {
		switch {
		case ch.ChannelType() == "session" && !s.opts.NoSession:
			s.wg.Go(func() { s.session(conn, ch) })
		case ch.ChannelType() == "direct-tcpip" && s.opts.Forward:
			s.wg.Go(func() { s.forward(ch) })
		default:
			ch.Reject(ssh.Prohibited, "administratively prohibited")
		}
	}
}
