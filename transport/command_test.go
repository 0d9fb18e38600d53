package transport

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remshell/sshx"
	"remshell/test/sshtest"
)

// program writes a remote-shell program, a script for sh.
func program(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rsh")
	check(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755))
	return file
}

// remote returns the usual last line of such a program: it runs the words after the host, with a home
// directory.
func remote(home string) string { return "shift; HOME=" + home + " exec \"$@\"\n" }

func TestCommand(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	c := &Command{Self: self(t), Pacer: new(sshx.Pacer), Template: []string{program(t, "echo \"$@\" >"+dir+"/args; "+remote(home))}}
	for _, source := range []string{"sent", "cache"} {
		rw, err := dial(t, c, "n1")
		check(t, err)
		conn := guarded(t, rw)
		hello(t, conn, c.Self.Build)
		if conn.Source() != source || conn.LocalAddr() != nil {
			t.Errorf("source %s, want %s; address %v", conn.Source(), source, conn.LocalAddr())
		}
		echoes(t, conn)
	}
	if args := string(must(os.ReadFile(dir + "/args"))); args != "n1 /bin/sh\n" {
		t.Errorf("arguments %q", args)
	}
}

func TestCommandHasSessionOfItsOwn(t *testing.T) {
	c := &Command{Self: self(t), Pacer: new(sshx.Pacer), Template: []string{program(t, remote(t.TempDir()))}}
	rw, err := dial(t, c, "n1")
	check(t, err)
	conn := guarded(t, rw)
	hello(t, conn, c.Self.Build)
	io.WriteString(conn, "session\n")
	var pid, group int
	fmt.Fscan(conn, &pid, &group)
	if pid != group {
		t.Errorf("process %d in group %d, want one of its own", pid, group)
	}
}

// The program's process group is killed if it ignores SIGTERM.
func TestCommandIsEndedWithItsGroup(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	c := &Command{Self: self(t), Pacer: new(sshx.Pacer), Template: []string{program(t,
		"trap '' TERM\n(trap '' TERM; exec sleep 1000) & echo $! $$ >"+pids+"; shift; HOME="+t.TempDir()+" \"$@\"; sleep 1000\n")}}
	rw, err := dial(t, c, "n1")
	check(t, err)
	hello(t, rw, c.Self.Build)
	begin := time.Now()
	rw.Close()
	if took := time.Since(begin); took > 5*time.Minute { // the sleeps take longer
		t.Errorf("Close took %v", took)
	}
	var sleeper, itself int
	fmt.Sscan(string(must(os.ReadFile(pids))), &sleeper, &itself)
	for _, pid := range []int{sleeper, itself} {
		if pid == 0 {
			t.Fatal("no process number")
		}
		eventually(t, "the group is gone", func() bool { return !alive(pid) })
	}
}

// If a program was told to end, its exit is no reason: ssh then prints that signal 15 has killed it.
func TestHowWeEndAProgramIsNoReason(t *testing.T) {
	c := &Command{Self: self(t), Pacer: new(sshx.Pacer), Template: []string{program(t,
		"trap 'echo Killed by signal 15. >&2; exit 255' TERM\nshift; HOME="+t.TempDir()+" \"$@\"; while :; do sleep 1000 & wait; done\n")}}
	rw, err := dial(t, c, "n1")
	check(t, err)
	conn := guarded(t, rw)
	hello(t, conn, c.Self.Build)
	conn.Close()
	<-conn.link.(*localCommand).done
	if why := conn.Why(); why != "" {
		t.Errorf("why %q", why)
	}
}

func TestCommandFailures(t *testing.T) {
	for _, c := range []struct {
		name, template string
		kind           Kind
		why            string
	}{
		{"no such program", "/nonexistent/rsh", KindMissing, "/nonexistent/rsh cannot be started: no such file"},
		{"not in PATH", "nosuchrsh", KindMissing, "nosuchrsh is not in the PATH"},
		{"template", "rsh %u", KindConfig, "the value of %u is not known"},
		{"no shell there", program(t, "echo sh: not found >&2; exit 127"), KindMissing, "not found: sh: not found"},
		{"says why", program(t, "echo Error: pod n1 is asleep >&2; exit 1"), KindOther, "Error: pod n1 is asleep"},
		{"silent", program(t, "sleep 1000"), KindNoRoute, "the host did not answer within 0.6 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Command{Self: self(t), Pacer: new(sshx.Pacer), Template: strings.Fields(c.template), Timeout: 10 * time.Second}
			if c.name == "silent" {
				d.Timeout, d.Shell = 300*time.Millisecond, 300*time.Millisecond
			}
			_, err := dial(t, d, "n1")
			var e *Error
			if !errors.As(err, &e) || e.Kind != c.kind || !strings.Contains(e.Why, c.why) || e.Host != "n1" {
				t.Errorf("error %v, want one of kind %s with %q", err, c.kind, c.why)
			}
			if c.name == "not in PATH" && e.Hint() != "install it, or give another program with -launcher-exec" {
				t.Errorf("hint %q", e.Hint())
			}
		})
	}
}

// A busy server is retried; after a helper was started, nothing is.
func TestCommandRetries(t *testing.T) {
	dir := t.TempDir()
	count := "n=$(cat " + dir + "/n 2>/dev/null || echo 0); echo $((n + 1)) >" + dir + "/n\n"
	busy := "echo 'kex_exchange_identification: Connection closed by remote host' >&2; exit 255\n"
	for _, c := range []struct {
		name, text string
		tries      string
		kind       Kind // empty if the host is reached
	}{
		{"busy twice", count + "if [ $n -lt 2 ]; then " + busy + "fi\n" + remote(t.TempDir()), "3", ""},
		{"always busy", count + busy, "3", KindClosed},
		{"helper started", count + "printf '\\036remshell run cache\\n'; " + busy, "1", KindHelper},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.Remove(dir + "/n")
			d := &Command{Self: self(t), Template: []string{program(t, c.text)}, Retries: 3, Pacer: &sshx.Pacer{Fanout: 8}}
			rw, err := dial(t, d, "n1")
			var e *Error
			switch {
			case err == nil:
				rw.Close()
			case !errors.As(err, &e):
				t.Errorf("error %v is no *Error", err)
			}
			if (err == nil) != (c.kind == "") || e != nil && e.Kind != c.kind {
				t.Errorf("error %v, want kind %q", err, c.kind)
			}
			if got := strings.TrimSpace(string(must(os.ReadFile(dir + "/n")))); got != c.tries {
				t.Errorf("%s tries, want %s", got, c.tries)
			}
		})
	}
}

// openssh returns a Command with the real ssh for a site. It reads no configuration of this machine.
func openssh(t testing.TB, s *site, more ...string) *Command {
	t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("ssh is missing")
	}
	args := append([]string{"-F", "none", "-i", s.key, "-o", "IdentitiesOnly=yes", "-o", "GlobalKnownHostsFile=none",
		"-o", "IdentityAgent=none"}, more...)
	return &Command{Self: s.Self, Template: []string{"ssh"}, Args: append(args, "-o", "UserKnownHostsFile="+s.known), Retries: 2, Pacer: &sshx.Pacer{Fanout: 8}}
}

func TestOpenSSH(t *testing.T) {
	s := newSite(t, sshtest.Options{Noise: "Welcome!\n"})
	c := openssh(t, s)
	rw, err := dialHost(t, c, s.host("127.0.0.1"))
	check(t, err)
	conn := guarded(t, rw)
	hello(t, conn, s.Self.Build)
	echoes(t, conn)
	s.server.CloseConnections()
	io.ReadAll(conn)
	if why := conn.Why(); !strings.HasPrefix(why, "exit code 255: ") {
		t.Errorf("why %q", why)
	}
}

// The messages of the real ssh are classified.
func TestOpenSSHFailures(t *testing.T) {
	port := func(n string) []string { return []string{"-p", n} }
	for _, c := range []struct {
		name string
		opts sshtest.Options
		host string
		args []string
		kind Kind
	}{
		{"unknown name", sshtest.Options{}, "nosuch.invalid", nil, KindName},
		{"closed port", sshtest.Options{}, "127.0.0.1", port("1"), KindRefused},
		{"black hole", sshtest.Options{SilentFrom: sshtest.BeforeVersion}, "127.0.0.1", nil, KindNoRoute},
		{"unknown key", sshtest.Options{}, "127.0.0.1", []string{"-o", "UserKnownHostsFile=/dev/null"}, KindUnknownKey},
		{"login refused", sshtest.Options{RefuseAll: true}, "127.0.0.1", nil, KindLogin},
		{"dropped", sshtest.Options{DropFirst: 100, DropText: "Exceeded MaxStartups\r\n"}, "127.0.0.1", nil, KindClosed},
		{"dropped silently", sshtest.Options{DropFirst: 100}, "127.0.0.1", nil, KindClosed},
		{"bad option", sshtest.Options{}, "127.0.0.1", []string{"-o", "Nonsense=1"}, KindConfig},
		{"no algorithm", sshtest.Options{}, "127.0.0.1", []string{"-o", "Ciphers=3des-cbc"}, KindMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c.opts)
			d := openssh(t, s, c.args...)
			if c.kind == KindNoRoute {
				d.Timeout = time.Second
			}
			_, err := dialHost(t, d, s.host(c.host))
			var e *Error
			if !errors.As(err, &e) || e.Kind != c.kind {
				t.Errorf("error %v, want one of kind %s (%+v)", err, c.kind, e)
			}
			if strings.TrimSpace(e.Raw) != "" && !showsALine(err.Error(), e.Raw) {
				t.Errorf("error %v does not show what ssh said: %q", err, e.Raw)
			}
		})
	}
	t.Run("changed key", func(t *testing.T) {
		s := newSite(t, sshtest.Options{})
		other := newSite(t, sshtest.Options{})
		line := strings.Replace(other.server.KnownHosts(), fmt.Sprint(other.server.Port()), fmt.Sprint(s.server.Port()), 1)
		check(t, os.WriteFile(s.known, []byte(line), 0o600))
		_, err := dialHost(t, openssh(t, s), s.host("127.0.0.1"))
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindChangedKey {
			t.Fatalf("error %v, want one of kind %s", err, KindChangedKey)
		}
		if want := "Offending ED25519 key in " + s.known + ":1"; e.Details != want {
			t.Errorf("error %v shows %q, want %q", err, e.Details, want)
		}
	})
}
