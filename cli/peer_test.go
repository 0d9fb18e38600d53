//go:build linux

package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A peer is whoever answers on a port. It has the key that known_hosts has for n1, and uses
// it if it likes.
type peer struct {
	t    *testing.T
	key  ssh.Signer
	home string // of a user who may log in
	port int
}

func newPeer(t *testing.T, serve func(*peer, net.Conn)) *peer {
	t.Helper()
	p := &peer{t: t, home: t.TempDir()}
	p.key = p.newKey("host")
	p.newKey("id_ed25519")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p.port = ln.Addr().(*net.TCPAddr).Port
	p.write("config", fmt.Sprintf("Host n1\nHostName 127.0.0.1\nPort %d\nUser me\nGlobalKnownHostsFile none\n", p.port))
	p.write("known_hosts", p.known(p.key.PublicKey()))
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(5 * time.Minute))
				serve(p, c)
			}()
		}
	}()
	return p
}

// known is a line of known_hosts.
func (p *peer) known(key ssh.PublicKey) string {
	return fmt.Sprintf("[127.0.0.1]:%d %s %s\n", p.port, key.Type(), base64.StdEncoding.EncodeToString(key.Marshal()))
}

func (p *peer) write(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.home, ".ssh", name)
	os.MkdirAll(filepath.Dir(file), 0o700)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) newKey(name string) ssh.Signer {
	p.t.Helper()
	_, private, _ := ed25519.GenerateKey(rand.Reader)
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		p.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, name)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(name, string(pem.EncodeToMemory(block)))
	return signer
}

// visit runs mpiexec on n1, and returns all that it said and its exit code.
func (p *peer) visit(args ...string) (string, int) {
	p.t.Helper()
	return p.visitAs([]string{"HOME=" + p.home, "USER=me"}, args...)
}

// visitAs is visit with variables beside the PATH.
func (p *peer) visitAs(environ []string, args ...string) (string, int) {
	p.t.Helper()
	ctx, done := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer done()
	var printed sheet
	code := Main(ctx, args, System{
		In: strings.NewReader(""), Out: &printed, Err: &printed, FS: withAccount(p.home), Suspend: func() {}, Catch: func(os.Signal) {},
		Environ: append([]string{"PATH=/bin"}, environ...), Getwd: func() (string, error) { return "/", nil },
	})
	if ctx.Err() != nil {
		p.t.Errorf("mpiexec %v waits for ever; it said %q", args, printed.String())
	}
	return printed.String(), code
}

// login lets the visitor in, if allowed, and hands over his sessions.
func (p *peer) login(c net.Conn, allowed bool, session func(ssh.NewChannel)) {
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			if allowed {
				return nil, nil
			}
			return nil, fmt.Errorf("no")
		},
		BannerCallback: func(ssh.ConnMetadata) string { return evil },
	}
	config.AddHostKey(p.key)
	_, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for ch := range channels {
		session(ch)
	}
}

// command takes a session, hears of its command, and does as it likes.
func command(do func(ssh.Channel)) func(ssh.NewChannel) {
	return func(nc ssh.NewChannel) {
		ch, requests, err := nc.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			r.Reply(r.Type == "exec", nil)
			if r.Type == "exec" {
				go ssh.DiscardRequests(requests)
				do(ch)
				ch.Close()
				return
			}
		}
	}
}

// packet sends one before any encryption (RFC 4253 section 6).
func packet(c net.Conn, payload []byte) error {
	padding := 16 - (5+len(payload))%8
	p := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)+padding))
	p = append(append(append(p, byte(padding)), payload...), make([]byte, padding)...)
	_, err := c.Write(p)
	return err
}

// greet exchanges versions, and hears the visitor's key exchange.
func greet(c net.Conn, version string) []byte {
	io.WriteString(c, version+"\r\n")
	in := bufio.NewReader(c)
	in.ReadString('\n')
	var size uint32
	binary.Read(in, binary.BigEndian, &size)
	heard := make([]byte, min(size, 1<<16))
	io.ReadFull(in, heard)
	return heard
}

// nameLists is a KEXINIT all of whose lists are text.
func nameLists(text string) []byte {
	p := append([]byte{20}, make([]byte, 16)...)
	for range 10 {
		p = append(binary.BigEndian.AppendUint32(p, uint32(len(text))), text...)
	}
	return append(p, 0, 0, 0, 0, 0)
}

// hostilePeers put terminal codes wherever the protocol has a text, before and after
// anybody knows who they are.
var hostilePeers = []struct {
	name  string
	serve func(*peer, net.Conn)
	says  string // what mpiexec says, among other things
}{
	{"identification of no server", func(_ *peer, c net.Conn) { io.WriteString(c, evil+"\r\n") }, `it says "\x1b]0;mine`},
	{"lines before the identification", func(_ *peer, c net.Conn) {
		for range 20 {
			io.WriteString(c, evil+"\r\n")
		}
		greet(c, "SSH-2.0-x")
	}, ""},
	{"identification", func(_ *peer, c net.Conn) { greet(c, "SSH-2.0-"+strings.ReplaceAll(evil, "\n", "")) }, ""},
	{"key exchange", func(_ *peer, c net.Conn) { greet(c, "SSH-2.0-x"); packet(c, nameLists(evil)) }, `(not authenticated)`},
	{"disconnect before the key", func(_ *peer, c net.Conn) {
		greet(c, "SSH-2.0-x")
		packet(c, append([]byte{1}, ssh.Marshal(struct {
			Reason         uint32
			Text, Language string
		}{2, evil, ""})...))
	}, `the server refuses: it says "\x1b]0;mine`},
	{"a flood before the key", func(_ *peer, c net.Conn) {
		greet(c, "SSH-2.0-x")
		junk := append([]byte{2}, ssh.Marshal(struct{ Text string }{strings.Repeat(evil, 500)})...)
		for packet(c, junk) == nil {
		}
	}, "more than 64 KiB before its key is known"},
	{"banner", func(p *peer, c net.Conn) { p.login(c, false, nil) }, `login refused`},
	{"refusal of a channel", func(p *peer, c net.Conn) {
		p.login(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, evil) })
	}, `the server opens no session: \x1b]0;mine`},
	{"exit signal", func(p *peer, c net.Conn) {
		p.login(c, true, command(func(ch ssh.Channel) {
			ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal string
				Core   bool
				Text   string
				Tag    string
			}{evil, false, evil, evil}))
		}))
	}, ""},
	{"standard error", func(p *peer, c net.Conn) {
		p.login(c, true, command(func(ch ssh.Channel) {
			io.WriteString(ch.Stderr(), evil)
			ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{127}))
		}))
	}, ""},
	{"noise of a login shell", func(p *peer, c net.Conn) {
		p.login(c, true, command(func(ch ssh.Channel) { io.WriteString(ch, evil+"\n"+evil+"\n") }))
	}, ""},
}

// Whatever a peer says, and whenever, it cannot command the terminal or speak for mpiexec
// (TRUST-22, TRUST-28).
func TestHostilePeers(t *testing.T) {
	for _, test := range hostilePeers {
		for _, args := range []string{"-n 1 -host n1 true", "-vv -n 1 -host n1 true", "--doctor n1", "--ps n1"} {
			t.Run(test.name+"/"+args, func(t *testing.T) {
				t.Parallel()
				printed, code := newPeer(t, test.serve).visit(strings.Fields("--connect-timeout 5 --retries 1 " + args)...)
				if harm := harmed(printed); harm != "" {
					t.Errorf("mpiexec printed %s", harm)
				}
				if !strings.Contains(printed, "n1: ") || !strings.Contains(printed, test.says) && args != "--doctor n1" || code == 0 {
					t.Errorf("code %d, %q", code, printed)
				}
			})
		}
	}
}

// Nothing that needs SHA-1 is offered (TRUST-21).
func TestNoSHA1IsOffered(t *testing.T) {
	offers := make(chan []byte, 8)
	newPeer(t, func(_ *peer, c net.Conn) { offers <- greet(c, "SSH-2.0-x") }).visit("--connect-timeout", "5", "--retries", "1", "-n", "1", "-host", "n1", "true")
	offer := <-offers
	if !bytes.Contains(offer, []byte("curve25519-sha256")) || bytes.Contains(offer, []byte("sha1")) || bytes.Contains(offer, []byte("ssh-rsa")) {
		t.Errorf("we offer %q", offer)
	}
}

// A revoked key is told with its line, and what to do (TRUST-21).
func TestRevokedKey(t *testing.T) {
	p := newPeer(t, func(p *peer, c net.Conn) {
		p.login(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, "none") })
	})
	p.write("known_hosts", p.known(p.key.PublicKey())+"@revoked * "+strings.SplitN(p.known(p.key.PublicKey()), " ", 2)[1])
	printed, code := p.visit("-n", "1", "-host", "n1", "true")
	if want := "mpiexec: n1: its host key is revoked (~/.ssh/known_hosts:2)\n  hint: ask its administrator\n"; printed != want || code != 125 {
		t.Errorf("code %d, %q, want %q", code, printed, want)
	}
}
