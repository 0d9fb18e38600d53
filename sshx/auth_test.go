package sshx

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"remshell/test/sshtest"
)

func TestEncryptedKeyWithoutTerminal(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	key := p.lockedKey("locked")
	target := p.target(p.server(sshtest.Options{AuthorizedKeys: []ssh.PublicKey{key}}).Addr())
	target.Identities = []string{p.home + "/.ssh/id_locked"}
	p.want(p.refusal(target), KindLogin, "~/.ssh/id_locked is encrypted, and there is no terminal", "ssh-add ~/.ssh/id_locked")
}

func TestPassphraseIsAskedForOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		key     string
		answers []string
		ok      bool
	}{
		{"right", "locked", []string{"sesame"}, true},
		{"mistyped once", "locked", []string{"simsim", "sesame"}, true},
		{"never right", "locked", []string{"a", "b", "c", "sesame"}, false},
		{"old format", "locked.pem", []string{"sesame"}, true},
		{"old format, never right", "locked.pem", []string{"a", "b", "c", "sesame"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			noLeak(t)
			p := newTestHome(t)
			key := p.lockedKey(tt.key)
			target := p.target(p.server(sshtest.Options{AuthorizedKeys: []ssh.PublicKey{key}}).Addr())
			target.Identities = []string{p.home + "/.ssh/id_locked"}
			var asked atomic.Int32
			p.d.Ask = func(prompt string) ([]byte, error) {
				if !strings.Contains(prompt, "~/.ssh/id_locked") {
					t.Errorf("prompt: %q", prompt)
				}
				return []byte(tt.answers[asked.Add(1)-1]), nil
			}
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					c, err := p.d.Dial(context.Background(), target)
					if (err == nil) != tt.ok {
						t.Errorf("Dial: %v", err)
					}
					if c != nil {
						c.Close()
					}
				})
			}
			wg.Wait()
			if want := min(len(tt.answers), passphraseTries); int(asked.Load()) != want {
				t.Errorf("asked %d times, want %d", asked.Load(), want)
			}
		})
	}
}

// If a key cannot sign, the next one is tried.
func TestNextKeyAfterOneThatCannotSign(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	locked := p.lockedKey("locked")
	target := p.target(p.server(sshtest.Options{AuthorizedKeys: []ssh.PublicKey{locked, p.key}}).Addr())
	target.Identities = []string{p.home + "/.ssh/id_locked", p.home + "/.ssh/id_ed25519"}
	p.dial(target)
}

func TestKeyOthersCanReadIsNotUsed(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	check(t, os.Chmod(p.home+"/.ssh/id_ed25519", 0o644))
	p.want(p.refusal(p.target(p.server(sshtest.Options{}).Addr())), KindLogin, "other users can access the file (mode 0644)", "")
}

func TestRSASignsWithSHA2(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	pub := p.addKey("id_rsa", newRSA(t))
	s := p.server(sshtest.Options{AuthorizedKeys: []ssh.PublicKey{pub}, Config: func(c *ssh.ServerConfig) {
		c.PublicKeyAuthAlgorithms = []string{ssh.KeyAlgoRSASHA512}
	}})
	target := p.target(s.Addr())
	target.Identities = []string{p.home + "/.ssh/id_rsa"}
	p.dial(target)
	t.Run("not with what the user has excluded", func(t *testing.T) {
		p := &testHome{t: t, home: p.home, d: &Dialer{}}
		target.PubkeyAlgorithms = []string{ssh.KeyAlgoED25519}
		p.want(p.refusal(target), KindLogin, "no key to try", "")
	})
}

// memoryAgent serves keys on a socket and counts connections.
func memoryAgent(t testing.TB, keys ...any) (socket string, conns *atomic.Int32) {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		check(t, ring.Add(agent.AddedKey{PrivateKey: k, Comment: "held"}))
	}
	conns = &atomic.Int32{}
	return serveSocket(t, func(c net.Conn) {
		conns.Add(1)
		agent.ServeAgent(ring, c)
	}), conns
}

func serveSocket(t testing.TB, serve func(net.Conn)) string {
	dir, err := os.MkdirTemp("", "agent")
	check(t, err)
	ln, err := net.Listen("unix", dir+"/s")
	check(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
		os.RemoveAll(dir)
	})
	return dir + "/s"
}

func TestAgentIsSharedByAllConnections(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	key := newEd25519(t)
	socket, conns := memoryAgent(t, newRSA(t), key)
	s := p.server(sshtest.Options{AuthorizedKeys: []ssh.PublicKey{signer(t, key).PublicKey()}})
	target := p.target(s.Addr())
	target.Agent, target.Identities = socket, []string{}
	defer p.d.Close()
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			c, err := p.d.Dial(context.Background(), target)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	wg.Wait()
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections to the agent", n)
	}
}

// An agent that never replies does not outlive the attempt, and nothing is left over.
func TestSilentAgent(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	asked, done := make(chan struct{}), make(chan struct{})
	target := p.target(p.server(sshtest.Options{}).Addr())
	target.Agent = serveSocket(t, func(c net.Conn) {
		c.Read(make([]byte, 1))
		close(asked)
		<-done
	})
	t.Cleanup(func() { close(done) })
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-asked
		cancel()
	}()
	_, err := p.d.Dial(ctx, target)
	var e *DialError
	if !errors.As(err, &e) || e.Kind != KindCanceled || e.Step != "login" {
		t.Errorf("Dial: %v", err)
	}
}

func TestAgentGone(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	target := p.target(p.server(sshtest.Options{RefuseAll: true}).Addr())
	target.Agent = p.home + "/no-socket"
	p.want(p.refusal(target), KindLogin, "no such file or directory", "ssh-copy-id ")
}

func TestCandidateOrder(t *testing.T) {
	var pubs []ssh.PublicKey
	for range 6 {
		pubs = append(pubs, sshtest.NewKey().PublicKey())
	}
	held := func(i int) *agent.Key {
		return &agent.Key{Format: pubs[i].Type(), Blob: pubs[i].Marshal(), Comment: string(rune('A' + i))}
	}
	file := func(i int) *keyFile { return &keyFile{path: "f" + string(rune('A'+i)), pub: pubs[i]} }
	ca := sshtest.NewKey()
	cert := &ssh.Certificate{Key: pubs[2], CertType: ssh.UserCert, KeyId: "id", ValidPrincipals: []string{"alice"}, ValidBefore: ssh.CertTimeInfinity}
	check(t, cert.SignCert(bytes.NewReader(make([]byte, 64)), ca))
	expired := &ssh.Certificate{Key: pubs[1], CertType: ssh.UserCert, KeyId: "old", ValidPrincipals: []string{"alice"}, ValidBefore: 1}
	check(t, expired.SignCert(bytes.NewReader(make([]byte, 64)), ca))
	unreadable := file(4)
	unreadable.err = errors.New("it contains no private key")
	certified := file(2)
	certified.cert = cert
	tests := []struct {
		name string
		keys keyOffer
		want string
	}{
		{"agent first, of these the configured", keyOffer{files: []*keyFile{file(3), file(1)}, listed: []*agent.Key{held(0), held(1)}},
			"agent's B, agent's A, fD"},
		{"only configured ones", keyOffer{files: []*keyFile{file(3), file(1)}, listed: []*agent.Key{held(0), held(1)}, identitiesOnly: true},
			"agent's B, fD"},
		{"public half only", keyOffer{files: []*keyFile{unreadable}, listed: []*agent.Key{held(4)}, identitiesOnly: true}, "agent's E"},
		{"public half, not in the agent", keyOffer{files: []*keyFile{unreadable}}, ""},
		{"certificate before all", keyOffer{files: []*keyFile{file(0), certified}, listed: []*agent.Key{held(5)}},
			"certificate id of fC, agent's F, fA, fC"},
		{"certificate of a key in the agent", keyOffer{certs: []*ssh.Certificate{cert}, listed: []*agent.Key{held(2)}},
			"certificate id of agent's C, agent's C"},
		{"expired, or without key", keyOffer{certs: []*ssh.Certificate{expired, cert}, files: []*keyFile{file(1)}}, "fB"},
		{"locked, of unknown type, last", keyOffer{files: []*keyFile{{path: "pem", locked: true}, file(0)}}, "fA, pem"},
		{"no key twice", keyOffer{files: []*keyFile{file(0), file(0)}}, "fA"},
	}
	for _, tt := range tests {
		tt.keys.now = time.Now()
		var names []string
		for _, c := range tt.keys.candidates() {
			names = append(names, c.name)
		}
		if got := strings.Join(names, ", "); got != tt.want {
			t.Errorf("%s: got %s; want %s", tt.name, got, tt.want)
		}
	}
}
