package sshx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

const sshdPath = "/usr/sbin/sshd"

// tool returns the path of an OpenSSH program. In CI it must exist; elsewhere the test is skipped with
// a message.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing", name)
	}
	t.Skipf("%s is missing", name)
	return ""
}

// run runs a program and returns its output.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(tool(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// An sshd is a real server on 127.0.0.1, with its files below a testHome.
type sshd struct {
	addr string
	dir  string
}

// sshd starts an sshd with host keys of these types and more lines of configuration. DIR in them
// stands for its directory.
func (p *testHome) sshd(types []string, config ...string) *sshd {
	p.t.Helper()
	tool(p.t, sshdPath)
	if os.Getuid() == 0 { // sshd requires its empty directory
		check(p.t, os.MkdirAll("/run/sshd", 0o755))
	}
	dir, err := os.MkdirTemp(p.home, "sshd")
	check(p.t, err)
	s := &sshd{addr: freeAddr(p.t), dir: dir}
	host, port, _ := net.SplitHostPort(s.addr)
	lines := []string{
		"ListenAddress " + host, "Port " + port, "PidFile none", "UsePAM no", "StrictModes no", "LogLevel ERROR",
		"PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PrintMotd no",
		"AuthorizedKeysFile " + p.home + "/.ssh/authorized_keys",
		"SetEnv HOME=" + p.home, // the shell's start-up files can take longer than the test
	}
	for _, typ := range types {
		run(p.t, "ssh-keygen", "-q", "-t", typ, "-N", "", "-f", filepath.Join(dir, typ))
		lines = append(lines, "HostKey "+filepath.Join(dir, typ))
	}
	for _, l := range config {
		lines = append(lines, strings.ReplaceAll(l, "DIR", dir))
	}
	if _, err := os.Stat(p.home + "/.ssh/authorized_keys"); err != nil {
		p.write(".ssh/authorized_keys", string(ssh.MarshalAuthorizedKey(p.key)))
	}
	check(p.t, os.WriteFile(filepath.Join(dir, "config"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	s.start(p.t)
	return s
}

func freeAddr(t testing.TB) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

func (s *sshd) start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(sshdPath, "-D", "-e", "-f", filepath.Join(s.dir, "config"))
	var log Tail
	cmd.Stderr = &log
	check(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		if t.Failed() {
			t.Logf("sshd: %s", log.String())
		}
	})
	eventually(t, "sshd listens", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("sshd: %v: %s", err, log.String())
		default:
		}
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

// known returns a line for known_hosts with the public key of one type.
func (s *sshd) known(t testing.TB, typ string) string {
	t.Helper()
	pub, err := os.ReadFile(filepath.Join(s.dir, typ+".pub"))
	check(t, err)
	host, port, _ := net.SplitHostPort(s.addr)
	return fmt.Sprintf("[%s]:%s %s", host, port, pub)
}

// real returns a target with the name of the user who runs the test.
func (p *testHome) real(s *sshd) Target {
	p.t.Helper()
	me, err := user.Current()
	check(p.t, err)
	t := p.target(s.addr)
	t.User = me.Username
	return t
}

func TestOpenSSHLogin(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.sshd([]string{"ed25519"})
	p.write(".ssh/known_hosts", s.known(t, "ed25519"))
	for _, key := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		t.Run(key, func(t *testing.T) {
			p := &testHome{t: t, home: p.home, d: &Dialer{}}
			var pub ssh.PublicKey
			switch key {
			case "id_ecdsa":
				pub = p.addKey(key, newECDSA(t))
			case "id_rsa":
				pub = p.addKey(key, newRSA(t))
			default:
				pub = p.key0()
			}
			p.write(".ssh/authorized_keys", string(ssh.MarshalAuthorizedKey(pub)))
			target := p.real(s)
			target.Identities = []string{p.home + "/.ssh/" + key}
			c := p.dial(target)
			if got := output(t, c, "echo $SSH_CONNECTION"); !strings.HasPrefix(got, "127.0.0.1 ") {
				t.Errorf("%q", got)
			}
		})
	}
}

// key0 returns the public key of id_ed25519.
func (p *testHome) key0() ssh.PublicKey { return readPublic(p.home + "/.ssh/id_ed25519.pub") }

// A host that is known by one key, and has others too, has not changed: the known key is requested,
// whatever its type.
func TestOpenSSHHostKeyTypes(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	types := []string{"rsa", "ecdsa", "ed25519"}
	s := p.sshd(types)
	for _, typ := range types {
		p.d = &Dialer{}
		p.write(".ssh/known_hosts", "# only one\n"+s.known(t, typ))
		p.dial(p.real(s))
	}
	t.Run("hashed by ssh-keygen", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		path := p.write(".ssh/known_hosts", "other.example.org "+strings.SplitN(s.known(t, "rsa"), " ", 2)[1]+s.known(t, "rsa"))
		run(t, "ssh-keygen", "-q", "-H", "-f", path)
		if text := p.read(".ssh/known_hosts"); !strings.HasPrefix(text, "|1|") || strings.Contains(text, "127.0.0.1") {
			t.Fatalf("not hashed: %s", text)
		}
		p.dial(p.real(s))
	})
	t.Run("what we hash ssh-keygen finds", func(t *testing.T) {
		p.t, p.d = t, &Dialer{AcceptNew: true}
		path := p.write(".ssh/known_hosts", "")
		target := p.real(s)
		target.HashKnownHosts = true
		p.dial(target)
		host, port, _ := net.SplitHostPort(s.addr)
		out := run(t, "ssh-keygen", "-F", fmt.Sprintf("[%s]:%s", host, port), "-f", path)
		if !strings.Contains(out, "ssh-ed25519") {
			t.Errorf("ssh-keygen -F: %s", out)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		line := s.known(t, "ed25519")
		p.write(".ssh/known_hosts", line+"@revoked * "+strings.SplitN(line, " ", 2)[1])
		p.want(p.refusal(p.real(s)), KindRevokedKey, "n1: the host key is revoked (~/.ssh/known_hosts:2)", "ask the administrator of the host why its key is revoked")
	})
	t.Run("revoked in a file of its own", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		p.write(".ssh/known_hosts", s.known(t, "ed25519"))
		target := p.real(s)
		target.RevokedKeys = []string{s.dir + "/ed25519.pub"}
		p.want(p.refusal(target), KindRevokedKey, "ed25519.pub:1", "")
	})
}

func TestOpenSSHHostCertificate(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	ca := filepath.Join(p.home, "ca")
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ca)
	caPub, err := os.ReadFile(ca + ".pub")
	check(t, err)
	s := p.sshd([]string{"ed25519", "ecdsa"}, "HostCertificate DIR/ed25519-cert.pub")
	tests := []struct {
		name, principals, validity, known string
		kind                              Kind // empty: connects
	}{
		{"good", "127.0.0.1", "-1d:+1d", "@cert-authority * ", ""},
		{"wildcard in the certificate", "127.0.*", "-1d:+1d", "@cert-authority [127.0.0.1]:* ", ""},
		{"for another host", "127.0.0.2", "-1d:+1d", "@cert-authority * ", KindHostCert},
		{"expired", "127.0.0.1", "-2d:-1d", "@cert-authority * ", KindHostCert},
		{"authority of other hosts", "127.0.0.1", "-1d:+1d", "@cert-authority *.example.org ", KindUnknownKey},
		{"authority revoked", "127.0.0.1", "-1d:+1d", "@revoked * ", KindRevokedKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &testHome{t: t, home: p.home, key: p.key, d: &Dialer{}}
			run(t, "ssh-keygen", "-q", "-s", ca, "-h", "-I", "n1", "-n", tt.principals, "-V", tt.validity, s.dir+"/ed25519.pub")
			s := &sshd{addr: freeAddr(t), dir: s.dir}
			s.reconfigure(t)
			s.start(t)
			p.write(".ssh/known_hosts", tt.known+string(caPub))
			target := p.real(s)
			if tt.kind == "" {
				p.dial(target)
				return
			}
			if tt.kind == KindRevokedKey { // certificates are offered only for authorities
				target.HostKeyAlgorithms, target.HostKeyOrderFixed = []string{ssh.CertAlgoED25519v01}, true
			}
			p.want(p.refusal(target), tt.kind, "host", "")
		})
	}
}

// reconfigure writes the configuration again with another port.
func (s *sshd) reconfigure(t testing.TB) {
	path := filepath.Join(s.dir, "config")
	data, err := os.ReadFile(path)
	check(t, err)
	_, port, _ := net.SplitHostPort(s.addr)
	lines := strings.Split(string(data), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "Port ") {
			lines[i] = "Port " + port
		}
	}
	check(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
}

// A server without a host key that the client accepts is not busy. The advice in the message works.
func TestOpenSSHWithoutAcceptedHostKey(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	p.d.Retries = 1
	none := p.sshd([]string{"rsa"}, "HostKeyAlgorithms ssh-ed25519")
	p.want(p.refusal(p.real(none)), KindClosed, "n1: handshake: the server closed the connection during the key exchange", "perhaps sshd has no host key that HostKeyAlgorithms in sshd_config allows")

	old := p.sshd([]string{"rsa"}, "HostKeyAlgorithms ssh-rsa")
	p.write(".ssh/known_hosts", old.known(t, "rsa"))
	p.d = &Dialer{}
	e := p.refusal(p.real(old))
	p.want(e, KindMismatch, "n1: handshake: the server has no host key of an accepted type: the client accepts rsa-sha2-512,", "")
	if !strings.Contains(e.Why, `; the server offers "ssh-rsa" (not authenticated)`) {
		t.Error(e)
	}
	advice := e.Hint()[strings.LastIndex(e.Hint(), ": ")+2:]
	me := User{Name: p.real(old).User, Home: p.home}
	config, err := ReadConfig(p.write(".ssh/config", advice+"\n"), "/dev/null", me)
	check(t, err)
	target, err := config.Resolve(t.Context(), "127.0.0.1", me, nowhere)
	check(t, err)
	target.Port, target.GlobalKnownHosts = p.real(old).Port, nil
	p.dial(target)
}

func TestOpenSSHUserCertificate(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	me, err := user.Current()
	check(t, err)
	ca := filepath.Join(p.home, "ca")
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ca)
	p.write(".ssh/authorized_keys", "")
	s := p.sshd([]string{"ed25519"}, "TrustedUserCAKeys "+ca+".pub")
	p.write(".ssh/known_hosts", s.known(t, "ed25519"))
	p.want(p.refusal(p.real(s)), KindLogin, "tried ~/.ssh/id_ed25519", "")
	run(t, "ssh-keygen", "-q", "-s", ca, "-I", "me", "-n", me.Username, p.home+"/.ssh/id_ed25519.pub")
	t.Run("next to the key", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		p.dial(p.real(s))
	})
	t.Run("CertificateFile", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		check(t, os.Rename(p.home+"/.ssh/id_ed25519-cert.pub", p.home+"/mine-cert.pub"))
		target := p.real(s)
		target.Certificates = []string{p.home + "/mine-cert.pub"}
		p.dial(target)
	})
}

func TestOpenSSHAgent(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.sshd([]string{"ed25519"})
	p.write(".ssh/known_hosts", s.known(t, "ed25519"))
	socket := p.agent(p.home + "/.ssh/id_ed25519")
	check(t, os.Remove(p.home+"/.ssh/id_ed25519"))
	check(t, os.Remove(p.home+"/.ssh/id_ed25519.pub"))
	target := p.real(s)
	target.Agent = socket
	var wg sync.WaitGroup
	for range 20 {
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
	t.Run("IdentitiesOnly without the key", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		target := target
		target.IdentitiesOnly = true
		p.want(p.refusal(target), KindLogin, "no key to try", "")
	})
	t.Run("IdentitiesOnly with a public key", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		target := target
		target.IdentitiesOnly = true
		target.Identities = []string{p.write("which.pub", string(ssh.MarshalAuthorizedKey(p.key)))}
		p.dial(target)
	})
	t.Run("rsa key in the agent", func(t *testing.T) {
		p.t, p.d = t, &Dialer{}
		pub := p.addKey("id_rsa", newRSA(t))
		target := target
		target.Agent = p.agent(p.home + "/.ssh/id_rsa")
		check(t, os.Remove(p.home+"/.ssh/id_rsa"))
		p.write(".ssh/authorized_keys", string(ssh.MarshalAuthorizedKey(pub)))
		p.dial(target)
	})
}

// agent starts an ssh-agent with one key and returns its socket.
func (p *testHome) agent(key string) string {
	p.t.Helper()
	dir, err := os.MkdirTemp("", "agent") // short: a socket's path has at most 107 bytes
	check(p.t, err)
	socket := dir + "/s"
	cmd := exec.Command(tool(p.t, "ssh-agent"), "-D", "-a", socket)
	check(p.t, cmd.Start())
	p.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	})
	eventually(p.t, "the agent listens", func() bool { // the socket appears a moment before it listens
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	add := exec.Command(tool(p.t, "ssh-add"), "-q", key)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		p.t.Fatalf("ssh-add: %v: %s", err, out)
	}
	return socket
}

// cli.md SSH-7: 48 aliases of one sshd with its default MaxStartups 10:30:100.
func TestOpenSSHMaxStartups(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.sshd([]string{"ed25519"})
	p.write(".ssh/known_hosts", s.known(t, "ed25519"))
	for _, perServer := range []int{0, 48} { // with 48 at the same time some are dropped
		p.d = &Dialer{Pacer: &Pacer{PerServer: perServer}}
		if perServer > 0 {
			p.d.Retries = 12 // the test must not depend on chance
		}
		var wg sync.WaitGroup
		for i := range 48 {
			wg.Go(func() {
				target := p.real(s)
				target.Alias = fmt.Sprintf("n%d", i)
				c, err := p.d.Dial(context.Background(), target)
				if err != nil {
					t.Errorf("%d at once: %v (%v)", perServer, err, errors.Unwrap(err))
					return
				}
				defer c.Close()
				if got := output(t, c, "echo hello"); got != "hello\n" {
					t.Errorf("%s: %q", target.Alias, got)
				}
			})
		}
		wg.Wait()
	}
}

func TestOpenSSHProxyJump(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	first, last := p.sshd([]string{"ed25519"}), p.sshd([]string{"ed25519"})
	p.write(".ssh/known_hosts", first.known(t, "ed25519")+last.known(t, "ed25519"))
	target := p.real(last)
	hop := p.real(first)
	hop.Alias = "bastion"
	target.Via = []Target{hop}
	if got := output(t, p.dial(target), "echo $SSH_CONNECTION"); !strings.HasSuffix(got, " "+portOf(last.addr)+"\n") {
		t.Errorf("not the last server: %q", got)
	}
	t.Run("target refuses", func(t *testing.T) {
		p.t = t
		target := target
		target.Port = 1
		p.want(p.refusal(target), KindNoRoute, "n1: connect: bastion cannot reach it", "")
	})
	t.Run("jump host refuses", func(t *testing.T) {
		p.t = t
		target := target
		bad := hop
		bad.Identities = []string{}
		target.Via = []Target{bad}
		p.want(p.refusal(target), KindLogin, "n1: jump: bastion: login: login refused", "ssh -v bastion true")
	})
	t.Run("ssh as ProxyCommand", func(t *testing.T) {
		p.t = t
		config := p.write("proxy_config", fmt.Sprintf("Host bastion\nHostName 127.0.0.1\nPort %s\nIdentityFile %s/.ssh/id_ed25519\nUserKnownHostsFile %s/.ssh/known_hosts\n",
			portOf(first.addr), p.home, p.home))
		target := p.real(last)
		target.ProxyCommand = "ssh -F " + config + " -o BatchMode=yes -W %h:%p bastion"
		output(t, p.dial(target), "true")
	})
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// Each session counts against MaxSessions; the message must name it.
func TestOpenSSHSessionLimits(t *testing.T) {
	noLeak(t)
	p := newTestHome(t)
	s := p.sshd([]string{"ed25519"}, "MaxSessions 1")
	p.write(".ssh/known_hosts", s.known(t, "ed25519"))
	c := p.dial(p.real(s))
	ses, err := c.Start(context.Background(), "cat")
	check(t, err)
	defer ses.Close()
	_, err = c.Start(context.Background(), "true")
	var e *DialError
	if !errors.As(err, &e) {
		t.Fatalf("second session: %v", err)
	}
	p.want(e, KindSession, "the server refuses to open a session", "MaxSessions")
	var b bytes.Buffer
	fmt.Fprint(ses, "x")
	ses.CloseWrite()
	_, err = b.ReadFrom(ses)
	check(t, err)
	if b.String() != "x" {
		t.Errorf("%q", b.String())
	}
}
