package transport

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/ed25519"

	"golang.org/x/crypto/ssh"

	"remshell/sshx"
	"remshell/test/sshtest"
	"remshell/trace"
)

// A site is an SSH server and its client's files.
type site struct {
	*SSH
	server *sshtest.Server
	dir    string // the client's home
	home   string // home on the server
	known  string // known_hosts
	key    string // private key file
	target sshx.Target
}

func newSite(t testing.TB, opts sshtest.Options) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), home: t.TempDir()}
	_, private, err := ed25519.GenerateKey(nil)
	check(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	check(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	check(t, err)
	s.key = filepath.Join(s.dir, "id_ed25519")
	check(t, os.WriteFile(s.key, pem.EncodeToMemory(block), 0o600))
	if opts.AuthorizedKeys == nil {
		opts.AuthorizedKeys = []ssh.PublicKey{signer.PublicKey()}
	}
	opts.Dir = s.home
	s.server, err = sshtest.New(opts)
	check(t, err)
	t.Cleanup(func() { s.server.Close() })
	s.known = filepath.Join(s.dir, "known_hosts")
	check(t, os.WriteFile(s.known, []byte(s.server.KnownHosts()), 0o600))
	s.target = sshx.Target{HostName: "127.0.0.1", Port: s.server.Port(), User: "u",
		Identities: []string{s.key}, UserKnownHosts: []string{s.known}}
	dialer := &sshx.Dialer{Timeout: 10 * time.Second}
	t.Cleanup(func() { dialer.Close() })
	s.SSH = &SSH{Self: self(t), Dialer: dialer, Resolve: func(_ context.Context, alias string) (sshx.Target, error) {
		target := s.target
		target.Alias = alias
		return target, nil
	}}
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host returns the server under a name, with user and port.
func (s *site) host(name string) Host { return Host{Name: name, User: "u", Port: s.server.Port()} }

func (s *site) reach(t testing.TB) *Conn {
	t.Helper()
	conn, err := dial(t, s, "n1")
	check(t, err)
	hello(t, conn, s.Self.Build)
	return guarded(t, conn)
}

func TestSSH(t *testing.T) {
	s := newSite(t, sshtest.Options{Noise: "Welcome!\nno new line"})
	for _, source := range []string{"sent", "cache"} {
		conn := s.reach(t)
		if conn.Source() != source {
			t.Errorf("source %s, want %s", conn.Source(), source)
		}
		if got := string(conn.Noise()); got != "Welcome!\nno new line" {
			t.Errorf("noise %q", got)
		}
		if conn.Login() <= 0 || conn.Shell() <= 0 {
			t.Errorf("the login took %v, the shell %v", conn.Login(), conn.Shell())
		}
		echoes(t, conn)
		if tcp, ok := conn.LocalAddr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			t.Errorf("local address %v", tcp)
		}
	}
}

func TestSSHSecondStartSendsLittle(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	s.reach(t).Close()
	wrote := 0
	counted := &sshx.Dialer{Timeout: 10 * time.Second, Connect: countingConnect(&wrote)}
	defer counted.Close()
	s.SSH = &SSH{Self: s.Self, Dialer: counted, Resolve: s.Resolve}
	s.reach(t).Close()
	t.Logf("%d bytes over TCP", wrote)
	if wrote == 0 || wrote > 100_000 {
		t.Errorf("the second start wrote %d bytes, want less than 100000", wrote)
	}
}

func TestSSHWhy(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *site, conn io.Writer)
		want []string
	}{
		{"exit", func(s *site, conn io.Writer) { io.WriteString(conn, "exit  3\n") }, []string{"exit code 3: last words"}},
		{"broken", func(s *site, conn io.Writer) { s.server.CloseConnections() },
			[]string{"ssh: the server closed the connection", "ssh: connection reset by peer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, sshtest.Options{})
			conn := s.reach(t)
			c.do(s, conn)
			_, err := io.ReadAll(conn)
			why := conn.Why()
			for _, want := range c.want {
				if why == want {
					return
				}
			}
			t.Errorf("read error %v, why %q, want one of %q", err, why, c.want)
		})
	}
}

func TestSSHCloseEndsTheNode(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	conn := s.reach(t)
	io.WriteString(conn, "session\n")
	var pid, group int
	if _, err := fmt.Fscan(conn, &pid, &group); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	eventually(t, "the helper is gone", func() bool { return !alive(pid) })
}

// The network accepts no more bytes in the middle of the delivery.
func TestSSHStuck(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	dialer := &sshx.Dialer{Timeout: time.Minute, Connect: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &stuckConn{Conn: c, left: 64 << 10, closed: make(chan struct{})}, err
	}}
	defer dialer.Close()
	begin := time.Now()
	_, err := dial(t, &SSH{Self: s.Self, Dialer: dialer, Shell: time.Second, Resolve: s.Resolve}, "n1")
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindNoRoute || !strings.Contains(e.Why, "the copy of mpiexec arrives at less than 10 KB/s") {
		t.Errorf("error %v, want one of kind %s", err, KindNoRoute)
	}
	if took := time.Since(begin); took > 5*time.Minute {
		t.Errorf("took %v", took)
	}
}

// A stuckConn accepts so many bytes, and then blocks until it is closed.
type stuckConn struct {
	net.Conn
	left   int
	once   sync.Once
	closed chan struct{}
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestSSHThatGivesNoSession(t *testing.T) {
	s := newSite(t, sshtest.Options{NoSession: true})
	_, err := dial(t, s, "n1")
	var r interface{ Reason() string }
	if !errors.As(err, &r) || !strings.Contains(r.Reason(), "the server refuses to open a session") || strings.Contains(r.Reason(), "n1") {
		t.Errorf("error %v, want one whose reason does not name the host", err)
	}
}

// sshd runs SHELL -c /bin/sh with the login shell. Start-up files may print text and return early.
func TestLoginShells(t *testing.T) {
	for _, c := range []struct{ shell, file, content string }{
		{"bash", ".bashrc", "echo noise of bash\necho more >&2\ncase $- in *i*) ;; *) return ;; esac\nexit 9\n"},
		{"dash", ".profile", "echo never read\n"},
		{"csh", ".cshrc", "echo noise of csh\nif ( ! $?prompt ) exit\n"},
		{"tcsh", ".tcshrc", "echo noise of tcsh\nif ( ! $?prompt ) exit\n"},
		{"fish", ".config/fish/config.fish", "echo noise of fish\nif not status is-interactive\n  exit\nend\n"},
	} {
		if _, err := exec.LookPath(c.shell); err != nil && c.shell != "bash" {
			continue // the shell is not installed
		}
		t.Run(c.shell, func(t *testing.T) {
			n := newNode(t, c.shell, "-c", shell)
			n.env = []string{"SSH_CLIENT=127.0.0.1 1 22"} // bash reads .bashrc for sshd only
			rc := filepath.Join(n.home, c.file)
			os.MkdirAll(filepath.Dir(rc), 0o755)
			check(t, os.WriteFile(rc, []byte(c.content), 0o644))
			s := self(t)
			echoes(t, n.reach(t, s, "sent"))
			conn := n.reach(t, s, "cache")
			echoes(t, conn)
			if c.shell == "csh" || c.shell == "tcsh" || c.shell == "fish" {
				if got := string(conn.Noise()); !strings.Contains(got, "noise of "+c.shell) {
					t.Errorf("noise %q", got)
				}
			}
		})
	}
}

// An account whose start-up file ends the shell can run nothing at all.
func TestLoginShellThatExits(t *testing.T) {
	p := newNode(t, "/bin/sh", "-c", "echo Go away; exit").start(t)
	_, err := self(t).deliverIn(longContext(t), p, time.Minute)
	if err == nil || !strings.Contains(err.Error(), `"Go away"`) {
		t.Errorf("error %v, want what was printed", err)
	}
}

func countingConnect(wrote *int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &countedConn{c, wrote}, err
	}
}

type countedConn struct {
	net.Conn
	wrote *int // by one goroutine at a time: x/crypto/ssh writes under a lock
}

func (c *countedConn) Write(p []byte) (int, error) {
	*c.wrote += len(p)
	return c.Conn.Write(p)
}

// A StepTracer is called for each step toward a host, from its name to the helper's first byte, and with
// the error of a failed step.
func TestStepTracer(t *testing.T) {
	var mu sync.Mutex
	var steps []string
	s := newSite(t, sshtest.Options{})
	s.Self = s.Self.WithTracer(func(host, step string) func(error) {
		return func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if !trace.IsKnownStep(step) {
				t.Errorf("no timeline knows %s", step)
			}
			if err != nil {
				step += "!"
			}
			steps = append(steps, host+" "+step)
		}
	})
	taken := func() string {
		mu.Lock()
		defer mu.Unlock()
		text := strings.Join(steps, ", ")
		steps = nil
		return text
	}
	const login = "n1 resolve, n1 wait to connect, n1 connect, n1 key exchange, n1 authentication, n1 session, "
	s.reach(t)
	if got, want := taken(), login+"n1 shell, n1 delivery, n1 helper"; got != want {
		t.Errorf("the first time the steps are %q, want %q", got, want)
	}
	s.reach(t)
	if got, want := taken(), login+"n1 shell, n1 helper"; got != want {
		t.Errorf("the second time the steps are %q, want %q", got, want)
	}
	host := s.host("n1")
	host.Helper = "/no/such/program"
	for r := range s.Dial(longContext(t), []Host{host}) {
		if r.Err == nil {
			t.Error("a program that is not there was started")
		}
	}
	if got, want := taken(), login+"n1 shell!"; got != want {
		t.Errorf("of what is refused the steps are %q, want %q", got, want)
	}
}
