//go:build linux

package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// The files of ssh are those of the account's home directory, whatever HOME is, and messages name them.
func TestHomeOfTheAccount(t *testing.T) {
	p := newFakeServer(t, func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, false, nil)
	})
	home := t.TempDir()
	run := func(env []string, args ...string) (string, int) {
		return p.runMpiexecWithEnv(append([]string{"USER=other"}, env...), args...)
	}
	config, known := filepath.Join(p.home, ".ssh/config"), filepath.Join(p.home, ".ssh/known_hosts")
	job := []string{"-n", "1", "-host", "n1", "true"}
	p.writeFile("config", fmt.Sprintf("Host n1\nHostName 127.0.0.1\nPort %d\nGlobalKnownHostsFile none\n", p.port))

	if said, code := run([]string{"HOME=" + home}, job...); code != 125 || !strings.Contains(said, "login refused for user me; tried "+p.home+"/.ssh/") {
		t.Errorf("exit %d, %s", code, said)
	}
	if said, _ := run([]string{"HOME=" + p.home}, job...); !strings.Contains(said, "login refused for user me; tried ~/.ssh/") {
		t.Error(said)
	}
	p.writeFile("known_hosts", "")
	if said, _ := run([]string{"HOME=" + home}, job...); !strings.Contains(said, "not in "+known) {
		t.Error(said)
	}
	if said, _ := run([]string{"HOME=" + home}, "-n", "1", "-host", "none.invalid", "true"); !strings.Contains(said, " for the host in "+config) {
		t.Error(said)
	}
	p.writeFile("config", "Host n1\nHostName\n")
	if said, _ := run([]string{"HOME=" + home}, job...); !strings.Contains(said, config+":2: HostName: ") {
		t.Error(said)
	}
}

// --ssh-config has the meaning of ssh -F.
func TestSSHConfig(t *testing.T) {
	p := newFakeServer(t, func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, "none today") })
	})
	other := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(other, fmt.Appendf(nil, "Host far\nHostName 127.0.0.1\nPort %d\n", p.port), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ config, host, says string }{
		{other, "far", "far: session: "},
		{other, "far.invalid", "far.invalid: resolve: "},
		{"none", "n1.invalid", "n1.invalid: resolve: "},
		{"/no/such/file", "far", "--ssh-config: cannot read /no/such/file: no such file or directory\n  hint: correct the path of the file"},
	} {
		said, code := p.runMpiexec("--ssh-config", test.config, "--retries", "1", "-n", "1", "-host", test.host, "true")
		if code != 125 || !strings.Contains(said, test.says) {
			t.Errorf("%s, %s: exit %d, %s", test.config, test.host, code, said)
		}
	}
	program := filepath.Join(p.home, "ssh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"called $*\" >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	said, _ := p.runMpiexec("-launcher-exec", program, "--ssh-config", other, "--ssh-option", "Port=7", "-n", "1", "-host", "n1", "true")
	if !strings.Contains(said, "called -F "+other+" -o Port=7 -x -T") {
		t.Errorf("the program was not called so: %s", said)
	}
	if err := os.Rename(program, program+"2"); err != nil {
		t.Fatal(err)
	}
	if said, _ := p.runMpiexec("-launcher-exec", program+"2", "--ssh-config", other, "-n", "1", "-host", "n1", "true"); !strings.Contains(said, "called n1 ") {
		t.Errorf("a program that is not ssh was not called so: %s", said)
	}
}

// An ignored line of ssh_config is reported once for any number of hosts. A misspelt keyword is an error.
func TestUnknownKeywordOfSSH(t *testing.T) {
	p := newFakeServer(t, func(p *fakeServer, c net.Conn) {
		p.acceptLogin(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, "none today") })
	})
	p.writeFile("config", fmt.Sprintf("Host other\nQuantumLevel 3\nHost *\nHostName 127.0.0.1\nPort %d\n", p.port))
	said, _ := p.runMpiexec("--retries", "1", "-n", "2", "-host", "n1,n2", "true")
	if want := "warning: " + filepath.Join(p.home, ".ssh/config") + ":2: mpiexec ignores QuantumLevel, "; strings.Count(said, want) != 1 || !strings.Contains(said, "session: ") {
		t.Errorf("%q is not printed once: %s", want, said)
	}
	p.writeFile("config", "Host other\nPrt 3\n")
	said, code := p.runMpiexec("--retries", "1", "-n", "1", "-host", "n1", "true")
	if want := "config:2: Prt: there is no such keyword (did you mean Port?)\n  hint: correct the keyword; ssh refuses it, too"; code != 125 || !strings.Contains(said, want) {
		t.Errorf("exit %d: %s, want %q", code, said, want)
	}
}

// --ssh-option takes precedence over ~/.ssh/config for the built-in ssh. For the program ssh it becomes -o before our
// own arguments.
func TestSSHOption(t *testing.T) {
	visited := make(chan struct{}, 8)
	p := newFakeServer(t, func(p *fakeServer, c net.Conn) {
		visited <- struct{}{}
		p.acceptLogin(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, "none today") })
	})
	p.writeFile("config", "Host n1\nHostName 127.0.0.1\nPort 1\nUser somebody\n")
	printed, _ := p.runMpiexec("--ssh-option", fmt.Sprint("Port=", p.port), "--ssh-option", "User=me", "--retries", "1", "-n", "1", "-host", "n1", "true")
	if !strings.Contains(printed, "none today") || len(visited) == 0 {
		t.Errorf("not reached at the port of the option: %s", printed)
	}
	for option, says := range map[string]string{
		"Port=none":        `--ssh-option:1: Port: "none" is not a number`,
		"Colour=blue":      "--ssh-option:1: Colour: the built-in ssh does not support this keyword\n  hint: use -launcher-exec ssh",
		"Prt=7":            "--ssh-option:1: Prt: there is no such keyword (did you mean Port?)",
		"Include=~/.other": "--ssh-option:1: Include: this keyword is allowed only in an ssh configuration file",
		"Host=n1":          "--ssh-option:1: the keywords Host and Match are allowed only in an ssh configuration file",
		"Port":             "the value must have the form KEY=VALUE",
		"-oPort=1":         "the value must have the form KEY=VALUE",
	} {
		if printed, code := p.runMpiexec("--ssh-option", option, "-n", "1", "-host", "n1", "true"); !strings.Contains(printed, says) || code != 125 {
			t.Errorf("%s: code %d, %s", option, code, printed)
		}
	}
	program := filepath.Join(p.home, "ssh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"called $*\" >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	printed, _ = p.runMpiexec("-launcher-exec", program, "-launcher-args", "-4", "--ssh-option", "Port=7", "-n", "1", "-host", "n1", "true")
	if !strings.Contains(printed, "called -4 -o Port=7 -x -T") {
		t.Errorf("the program was not called so: %s", printed)
	}
	if printed, code := p.runMpiexec("-launcher-exec", "kubectl exec %h --", "--ssh-option", "Port=7", "-n", "1", "-host", "n1", "true"); code != 125 || !strings.Contains(printed, "--ssh-option works only with ssh") {
		t.Errorf("code %d, %s", code, printed)
	}
}
