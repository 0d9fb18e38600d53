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

// A fakeServer is a TCP server on the port of host n1. It may use the host key that known_hosts has for n1.
type fakeServer struct {
	t    *testing.T
	key  ssh.Signer
	home string // home directory of the user who may log in
	port int
}

// newFakeServer starts a server that calls serve for each connection.
func newFakeServer(t *testing.T, serve func(*fakeServer, net.Conn)) *fakeServer {
	t.Helper()
	p := &fakeServer{t: t, home: t.TempDir()}
	p.key = p.newKey("host")
	p.newKey("id_ed25519")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p.port = ln.Addr().(*net.TCPAddr).Port
	p.writeFile("config", fmt.Sprintf("Host n1\nHostName 127.0.0.1\nPort %d\nUser me\nGlobalKnownHostsFile none\n", p.port))
	p.writeFile("known_hosts", p.knownHostsLine(p.key.PublicKey()))
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

// knownHostsLine returns the line of known_hosts for a key of this server.
func (p *fakeServer) knownHostsLine(key ssh.PublicKey) string {
	return fmt.Sprintf("[127.0.0.1]:%d %s %s\n", p.port, key.Type(), base64.StdEncoding.EncodeToString(key.Marshal()))
}

func (p *fakeServer) writeFile(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.home, ".ssh", name)
	os.MkdirAll(filepath.Dir(file), 0o700)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *fakeServer) newKey(name string) ssh.Signer {
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
	p.writeFile(name, string(pem.EncodeToMemory(block)))
	return signer
}

// runMpiexec runs mpiexec in this process with the user's home directory, and returns all it printed and its exit
// code.
func (p *fakeServer) runMpiexec(args ...string) (string, int) {
	p.t.Helper()
	return p.runMpiexecWithEnv([]string{"HOME=" + p.home, "USER=me"}, args...)
}

// runMpiexecWithEnv is runMpiexec with environ instead of HOME and USER.
func (p *fakeServer) runMpiexecWithEnv(environ []string, args ...string) (string, int) {
	p.t.Helper()
	ctx, done := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer done()
	var printed syncBuffer
	code := Main(ctx, args, System{
		In: strings.NewReader(""), Out: &printed, Err: &printed, FS: withAccount(p.home), Suspend: func() {}, CatchSignal: func(os.Signal) {},
		Environ: append([]string{"PATH=/bin"}, environ...), Getwd: func() (string, error) { return "/", nil },
	})
	if ctx.Err() != nil {
		p.t.Errorf("mpiexec %v waits for ever; it said %q", args, printed.String())
	}
	return printed.String(), code
}

// acceptLogin speaks SSH as a server. It accepts or rejects the login, and calls session for each channel.
func (p *fakeServer) acceptLogin(c net.Conn, allowed bool, session func(ssh.NewChannel)) {
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			if allowed {
				return nil, nil
			}
			return nil, fmt.Errorf("no")
		},
		BannerCallback: func(ssh.ConnMetadata) string { return hostileText },
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

// serveCommand returns a function that accepts a session channel, waits for its command and calls do.
func serveCommand(do func(ssh.Channel)) func(ssh.NewChannel) {
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

// writePacket writes an unencrypted SSH packet (RFC 4253 section 6).
func writePacket(c net.Conn, payload []byte) error {
	padding := 16 - (5+len(payload))%8
	p := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)+padding))
	p = append(append(append(p, byte(padding)), payload...), make([]byte, padding)...)
	_, err := c.Write(p)
	return err
}

// exchangeVersions exchanges SSH versions, and returns the client's key exchange message.
func exchangeVersions(c net.Conn, version string) []byte {
	io.WriteString(c, version+"\r\n")
	in := bufio.NewReader(c)
	in.ReadString('\n')
	var size uint32
	binary.Read(in, binary.BigEndian, &size)
	received := make([]byte, min(size, 1<<16))
	io.ReadFull(in, received)
	return received
}

// nameLists returns an SSH KEXINIT message in which each list is text.
func nameLists(text string) []byte {
	p := append([]byte{20}, make([]byte, 16)...)
	for range 10 {
		p = append(binary.BigEndian.AppendUint32(p, uint32(len(text))), text...)
	}
	return append(p, 0, 0, 0, 0, 0)
}

// hostileServers send terminal codes in each text of the SSH protocol, before and after authentication.
var hostileServers = []struct {
	name  string
	serve func(*fakeServer, net.Conn)
	says  string // a part of what mpiexec prints
}{
	{"identification of no server", func(_ *fakeServer, c net.Conn) { io.WriteString(c, hostileText+"\r\n") }, `it answered "\x1b]0;mine`},
	{"lines before the identification", func(_ *fakeServer, c net.Conn) {
		for range 20 {
			io.WriteString(c, hostileText+"\r\n")
		}
		exchangeVersions(c, "SSH-2.0-x")
	}, ""},
	{"identification", func(_ *fakeServer, c net.Conn) {
		exchangeVersions(c, "SSH-2.0-"+strings.ReplaceAll(hostileText, "\n", ""))
	}, ""},
	{"key exchange", func(_ *fakeServer, c net.Conn) {
		exchangeVersions(c, "SSH-2.0-x")
		writePacket(c, nameLists(hostileText))
	}, `(not authenticated)`},
	{"disconnect before the key", func(_ *fakeServer, c net.Conn) {
		exchangeVersions(c, "SSH-2.0-x")
		writePacket(c, append([]byte{1}, ssh.Marshal(struct {
			Reason         uint32
			Text, Language string
		}{2, hostileText, ""})...))
	}, `the server refused the connection: "\x1b]0;mine`},
	{"a flood before the key", func(_ *fakeServer, c net.Conn) {
		exchangeVersions(c, "SSH-2.0-x")
		junk := append([]byte{2}, ssh.Marshal(struct{ Text string }{strings.Repeat(hostileText, 500)})...)
		for writePacket(c, junk) == nil {
		}
	}, "more than 64 KiB before its host key"},
	{"banner", func(p *fakeServer, c net.Conn) { p.acceptLogin(c, false, nil) }, `login refused`},
	{"refusal of a channel", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, hostileText) })
	}, `the server refuses to open a session: \x1b]0;mine`},
	{"exit signal", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) {
			ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal string
				Core   bool
				Text   string
				Tag    string
			}{hostileText, false, hostileText, hostileText}))
		}))
	}, ""},
	{"standard error", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) {
			io.WriteString(ch.Stderr(), hostileText)
			ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{127}))
		}))
	}, ""},
	{"noise of a login shell", func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, serveCommand(func(ch ssh.Channel) { io.WriteString(ch, hostileText+"\n"+hostileText+"\n") }))
	}, ""},
}

// No text of a peer controls the terminal or looks like a message of mpiexec, at any time of the connection (TRUST-22,
// TRUST-28).
func TestHostilePeers(t *testing.T) {
	for _, test := range hostileServers {
		for _, args := range []string{"-n 1 -host n1 true", "-vv -n 1 -host n1 true", "--doctor n1", "--ps n1"} {
			t.Run(test.name+"/"+args, func(t *testing.T) {
				t.Parallel()
				printed, code := newFakeServer(t, test.serve).runMpiexec(strings.Fields("--connect-timeout 5 --retries 1 " + args)...)
				if harm := checkHarmless(printed); harm != "" {
					t.Errorf("mpiexec printed %s", harm)
				}
				if !strings.Contains(printed, "n1: ") || !strings.Contains(printed, test.says) && args != "--doctor n1" || code == 0 {
					t.Errorf("code %d, %q", code, printed)
				}
			})
		}
	}
}

// The built-in ssh offers no algorithm with SHA-1 (TRUST-21).
func TestNoSHA1IsOffered(t *testing.T) {
	offers := make(chan []byte, 8)
	newFakeServer(t, func(_ *fakeServer, c net.Conn) { offers <- exchangeVersions(c, "SSH-2.0-x") }).runMpiexec("--connect-timeout", "5", "--retries", "1", "-n", "1", "-host", "n1", "true")
	offer := <-offers
	if !bytes.Contains(offer, []byte("curve25519-sha256")) || bytes.Contains(offer, []byte("sha1")) || bytes.Contains(offer, []byte("ssh-rsa")) {
		t.Errorf("we offer %q", offer)
	}
}

// A message about a revoked host key names the line of known_hosts and a remedy (TRUST-21).
func TestRevokedKey(t *testing.T) {
	p := newFakeServer(t, func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, "none") })
	})
	p.writeFile("known_hosts", p.knownHostsLine(p.key.PublicKey())+"@revoked * "+strings.SplitN(p.knownHostsLine(p.key.PublicKey()), " ", 2)[1])
	printed, code := p.runMpiexec("-n", "1", "-host", "n1", "true")
	if want := "mpiexec: n1: the host key is revoked (~/.ssh/known_hosts:2)\n  hint: ask the administrator of the host why its key is revoked\n"; printed != want || code != 125 {
		t.Errorf("code %d, %q, want %q", code, printed, want)
	}
}
