package sshx

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"

	"golang.org/x/crypto/ssh"

	"remshell/test/sshtest"
)

// A testHome is a user's home directory with a key, and a Dialer for that user.
type testHome struct {
	t    testing.TB
	home string
	key  ssh.PublicKey // in id_ed25519
	d    *Dialer
}

func newTestHome(t testing.TB) *testHome {
	t.Helper()
	p := &testHome{t: t, home: t.TempDir(), d: &Dialer{Timeout: 10 * time.Second}}
	p.key = p.addKey("id_ed25519", newEd25519(t))
	t.Cleanup(func() { p.d.Close() })
	return p
}

func newEd25519(t testing.TB) any {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	return key
}

func newRSA(t testing.TB) any {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	return key
}

func newECDSA(t testing.TB) any {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func signer(t testing.TB, key any) ssh.Signer {
	s, err := ssh.NewSignerFromKey(key)
	check(t, err)
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addKey writes a private key and its public key to ~/.ssh.
func (p *testHome) addKey(name string, key any) ssh.PublicKey {
	p.t.Helper()
	block, err := ssh.MarshalPrivateKey(key, name)
	check(p.t, err)
	p.write(".ssh/"+name, string(pem.EncodeToMemory(block)))
	pub := signer(p.t, key).PublicKey()
	p.write(".ssh/"+name+".pub", string(ssh.MarshalAuthorizedKey(pub)))
	return pub
}

// lockedKey writes a key with the passphrase "sesame" as id_locked. testdata/keys has two. One shows
// its public key; ssh-keygen -a 1 made it, so that unlocking is fast. The other is in the old format,
// which does not.
func (p *testHome) lockedKey(name string) ssh.PublicKey {
	p.t.Helper()
	data, err := os.ReadFile("testdata/keys/" + name)
	check(p.t, err)
	p.write(".ssh/id_locked", string(data))
	return readPublic("testdata/keys/" + name + ".pub")
}

// write writes a file below home, and returns its path.
func (p *testHome) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	check(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	check(p.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (p *testHome) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.home, name))
	check(p.t, err)
	return string(data)
}

// server starts a server that accepts the home's key. The server's key is in known_hosts.
func (p *testHome) server(opts sshtest.Options) *sshtest.Server {
	p.t.Helper()
	s := p.unknownServer(opts)
	known, _ := os.ReadFile(filepath.Join(p.home, ".ssh/known_hosts"))
	p.write(".ssh/known_hosts", string(known)+s.KnownHosts())
	return s
}

// unknownServer starts a server that is not in known_hosts.
func (p *testHome) unknownServer(opts sshtest.Options) *sshtest.Server {
	p.t.Helper()
	if opts.AuthorizedKeys == nil && opts.UserCAs == nil {
		opts.AuthorizedKeys = []ssh.PublicKey{p.key}
	}
	s, err := sshtest.New(opts)
	check(p.t, err)
	p.t.Cleanup(func() { s.Close() })
	return s
}

// target returns the result of Resolve without configuration.
func (p *testHome) target(addr string) Target {
	host, port, err := net.SplitHostPort(addr)
	check(p.t, err)
	n, err := strconv.Atoi(port)
	check(p.t, err)
	return Target{
		Alias: "n1", HostName: host, Port: n, User: "alice", Home: p.home, Tilde: p.home,
		UserKnownHosts: []string{filepath.Join(p.home, ".ssh/known_hosts")},
	}
}

// me returns the user of this home, with environment variables NAME=value.
func (p *testHome) me(env ...string) User {
	return User{Name: "alice", Home: p.home, UID: os.Getuid(), Host: "here.example.org", Getenv: func(name string) string {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}}
}

// dial connects, or fails the test.
func (p *testHome) dial(t Target) *Client {
	p.t.Helper()
	c, err := p.d.Dial(context.Background(), t)
	check(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	return c
}

// refusal connects and fails the test if that succeeds.
func (p *testHome) refusal(t Target) *DialError {
	p.t.Helper()
	c, err := p.d.Dial(context.Background(), t)
	if err == nil {
		c.Close()
		p.t.Fatalf("Dial(%s) succeeded", t.Alias)
	}
	var e *DialError
	if !errors.As(err, &e) {
		p.t.Fatalf("Dial(%s): %v is no *DialError", t.Alias, err)
	}
	return e
}

// want compares the kind, and a part of message and hint.
func (p *testHome) want(e *DialError, kind Kind, part, hint string) {
	p.t.Helper()
	if e.Kind != kind || !strings.Contains(e.Error(), part) || !strings.Contains(e.Hint(), hint) {
		p.t.Errorf("got  %s: %v; %s\nwant %s: ... %s ...; %s", e.Kind, e, e.Hint(), kind, part, hint)
	}
}

// output runs a command to its end.
func output(t testing.TB, c *Client, command string) string {
	t.Helper()
	s, err := c.Start(context.Background(), command)
	check(t, err)
	defer s.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(s)
	check(t, err)
	if err := s.Wait(); err != nil {
		t.Fatalf("%s: %v (%s)", command, err, s.Stderr())
	}
	return b.String()
}

// eventually polls for a condition that no event announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not so after 10 s: %s", what)
		}
	}
}

// noLeak fails the test if at its end there are more goroutines or file descriptors than at the call.
// Call it first, so that it checks last.
func noLeak(t testing.TB) {
	t.Helper()
	before, files := runtime.NumGoroutine(), openFiles()
	t.Cleanup(func() {
		eventually(t, "no goroutine or descriptor left over", func() bool {
			return runtime.NumGoroutine() <= before && openFiles() <= files
		})
	})
}

func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}
