package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A client is OpenSSH's ssh with files of its own: what it can talk to, others
// can too.
type client struct {
	t   *testing.T
	dir string
	key ssh.PublicKey
}

func newClient(t *testing.T) *client {
	t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(c.dir, "key"), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c.key = signer.PublicKey()
	return c
}

func (c *client) server(opts Options) *Server {
	c.t.Helper()
	opts.AuthorizedKeys = []ssh.PublicKey{c.key}
	s, err := New(opts)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { s.Close() })
	return s
}

// run calls ssh with a server's name as in its configuration, and gives stdin.
func (c *client) run(servers map[string]*Server, stdin string, args ...string) (stdout string, code int) {
	c.t.Helper()
	var config, known strings.Builder
	for name, s := range servers {
		fmt.Fprintf(&config, "Host %s\n  HostName 127.0.0.1\n  Port %d\n", name, s.Port())
		known.WriteString(s.KnownHosts())
	}
	fmt.Fprintf(&config, "Host *\n  User alice\n  BatchMode yes\n  IdentitiesOnly yes\n  IdentityFile %s/key\n  UserKnownHostsFile %s/known\n", c.dir, c.dir)
	for name, text := range map[string]string{"config": config.String(), "known": known.String()} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ssh", append([]string{"-F", filepath.Join(c.dir, "config")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		c.t.Logf("ssh %q: %v: %s", args, err, errs.String())
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestServesOpenSSH(t *testing.T) {
	c := newClient(t)
	s := c.server(Options{Noise: "welcome\n", Env: []string{"COLOUR=blue"}, Dir: c.dir})
	gate := c.server(Options{Forward: true})
	servers := map[string]*Server{"n1": s, "gate": gate}
	tests := []struct {
		name, stdin string
		args        []string
		out         string
		code        int
	}{
		{"command", "", []string{"n1", "echo $COLOUR $LOGNAME; exit 7"}, "welcome\nblue alice\n", 7},
		{"stdin", "some\ntext", []string{"n1", "cat"}, "welcome\nsome\ntext", 0},
		{"home", "", []string{"n1", "pwd; echo $HOME"}, fmt.Sprintf("welcome\n%[1]s\n%[1]s\n", c.dir), 0},
		{"killed", "", []string{"n1", "kill -KILL $$"}, "welcome\n", 255},
		{"jump", "", []string{"-J", "gate", "n1", "echo over"}, "welcome\nover\n", 0},
	}
	for _, tt := range tests {
		c.t = t
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "jump" { // ssh -J calls ssh without our -F
				tt.args = []string{"-o", "ProxyCommand=ssh -F " + c.dir + "/config -W %h:%p gate", "n1", "echo over"}
			}
			if out, code := c.run(servers, tt.stdin, tt.args...); out != tt.out || code != tt.code {
				t.Errorf("got %q, exit code %d; want %q, %d", out, code, tt.out, tt.code)
			}
		})
	}
	if st := gate.Stats(); st.Forwarded != 1 {
		t.Errorf("%+v", st)
	}
}

func TestRefusesOpenSSH(t *testing.T) {
	for name, opts := range map[string]Options{
		"nobody gets in": {RefuseAll: true},
		"dropped":        {DropFirst: 100, DropText: "Exceeded MaxStartups\r\n"},
		"another user":   {Users: []string{"bob"}},
		"no session":     {NoSession: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t)
			if out, code := c.run(map[string]*Server{"n1": c.server(opts)}, "", "n1", "echo hello"); out != "" || code != 255 {
				t.Errorf("got %q, exit code %d", out, code)
			}
		})
	}
}
