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

// A place is a user's home with a key in it, and what connects from there.
type place struct {
	t    testing.TB
	home string
	key  ssh.PublicKey // of id_ed25519
	d    *Dialer
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{t: t, home: t.TempDir(), d: &Dialer{Timeout: 10 * time.Second}}
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

// addKey writes a private key and its public half to ~/.ssh.
func (p *place) addKey(name string, key any) ssh.PublicKey {
	p.t.Helper()
	block, err := ssh.MarshalPrivateKey(key, name)
	check(p.t, err)
	p.write(".ssh/"+name, string(pem.EncodeToMemory(block)))
	pub := signer(p.t, key).PublicKey()
	p.write(".ssh/"+name+".pub", string(ssh.MarshalAuthorizedKey(pub)))
	return pub
}

// lockedKey puts a key with the passphrase "sesame" where id_locked should be.
// testdata/keys has two: one that tells its public half, made by ssh-keygen -a 1
// so that unlocking is quick, and one in the old format that does not.
func (p *place) lockedKey(name string) ssh.PublicKey {
	p.t.Helper()
	data, err := os.ReadFile("testdata/keys/" + name)
	check(p.t, err)
	p.write(".ssh/id_locked", string(data))
	return readPublic("testdata/keys/" + name + ".pub")
}

// write makes a file below home, and returns its path.
func (p *place) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	check(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	check(p.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (p *place) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.home, name))
	check(p.t, err)
	return string(data)
}

// server starts a server that knows the place's key, and which known_hosts
// knows.
func (p *place) server(opts sshtest.Options) *sshtest.Server {
	p.t.Helper()
	s := p.stranger(opts)
	known, _ := os.ReadFile(filepath.Join(p.home, ".ssh/known_hosts"))
	p.write(".ssh/known_hosts", string(known)+s.KnownHosts())
	return s
}

// stranger is a server that is not in known_hosts.
func (p *place) stranger(opts sshtest.Options) *sshtest.Server {
	p.t.Helper()
	if opts.AuthorizedKeys == nil && opts.UserCAs == nil {
		opts.AuthorizedKeys = []ssh.PublicKey{p.key}
	}
	s, err := sshtest.New(opts)
	check(p.t, err)
	p.t.Cleanup(func() { s.Close() })
	return s
}

// target is what Resolve gives without configuration.
func (p *place) target(addr string) Target {
	host, port, err := net.SplitHostPort(addr)
	check(p.t, err)
	n, err := strconv.Atoi(port)
	check(p.t, err)
	return Target{
		Alias: "n1", HostName: host, Port: n, User: "alice", Home: p.home, Tilde: p.home,
		UserKnownHosts: []string{filepath.Join(p.home, ".ssh/known_hosts")},
	}
}

// me is the user at home, with an environment of NAME=value words.
func (p *place) me(env ...string) User {
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
func (p *place) dial(t Target) *Client {
	p.t.Helper()
	c, err := p.d.Dial(context.Background(), t)
	check(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	return c
}

// refusal connects and must not succeed.
func (p *place) refusal(t Target) *DialError {
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

// want compares kind, message and hint, the last two by a part of them.
func (p *place) want(e *DialError, kind Kind, part, hint string) {
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

// eventually polls for what no event announces.
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

// noLeak fails the test if goroutines or file descriptors are left over that
// were not there at the call. It must be the first thing a test does, so that
// it looks last.
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
