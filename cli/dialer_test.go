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

// --ssh-option beats ~/.ssh/config for the built-in ssh, and stands before our own
// arguments of a program of that name.
func TestSSHOption(t *testing.T) {
	visited := make(chan struct{}, 8)
	p := newPeer(t, func(p *peer, c net.Conn) {
		visited <- struct{}{}
		p.login(c, true, func(ch ssh.NewChannel) { ch.Reject(ssh.Prohibited, "none today") })
	})
	p.write("config", "Host n1\nHostName 127.0.0.1\nPort 1\nUser somebody\n")
	printed, _ := p.visit("--ssh-option", fmt.Sprint("Port=", p.port), "--ssh-option", "User=me", "--retries", "1", "-n", "1", "-host", "n1", "true")
	if !strings.Contains(printed, "none today") || len(visited) == 0 {
		t.Errorf("not reached at the port of the option: %s", printed)
	}
	for option, says := range map[string]string{
		"Port=none":        `--ssh-option:1: Port: "none" is not a number`,
		"Colour=blue":      "--ssh-option:1: Colour: the built-in client does not know it; use -launcher-exec ssh",
		"Include=~/.other": "--ssh-option:1: Include: only for a file",
		"Host=n1":          "--ssh-option:1: Host and Match are only for a file",
		"Port":             "not KEY=VALUE",
		"-oPort=1":         "not KEY=VALUE",
	} {
		if printed, code := p.visit("--ssh-option", option, "-n", "1", "-host", "n1", "true"); !strings.Contains(printed, says) || code != 125 {
			t.Errorf("%s: code %d, %s", option, code, printed)
		}
	}
	program := filepath.Join(p.home, "ssh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"called $*\" >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	printed, _ = p.visit("-launcher-exec", program, "-launcher-args", "-4", "--ssh-option", "Port=7", "-n", "1", "-host", "n1", "true")
	if !strings.Contains(printed, "called -4 -o Port=7 -x -T") {
		t.Errorf("the program was not called so: %s", printed)
	}
	if printed, code := p.visit("-launcher-exec", "kubectl exec %h --", "--ssh-option", "Port=7", "-n", "1", "-host", "n1", "true"); code != 125 || !strings.Contains(printed, "--ssh-option is for ssh") {
		t.Errorf("code %d, %s", code, printed)
	}
}
