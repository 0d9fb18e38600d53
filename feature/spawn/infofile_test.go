//go:build linux

package spawn

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remshell/pmiserver/spawn"
)

// A file that a rank names must be a small regular file; others are not opened. Only hosts and numbers are used, and
// an error shows nothing of the file (TRUST-11).
func TestInfoFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hosts", "n1 slots=2\n# more\nn[2-3]:4\n")
	write("info", "# where to go\nhost = n2\n color = blue\nwdir=/tmp\n")
	write("chain", "hostfile = hosts\n")
	write("user", "n1 user=root\n")
	write("addr", "n1 addr=10.0.0.1\n")
	write("code", "n1 path=/tmp/evil\n")
	write("env", "n1 env=LD_PRELOAD:/tmp/evil.so\n")
	write("runs", "host=n1\npath=/tmp/evil\n")
	write("secret", "-----BEGIN PRIVATE KEY-----\nMIIEvQ secret\n")
	write("large", strings.Repeat("n1\n", maxInfoBytes/3+1))
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ key, value, want string }{
		{"hostfile", "hosts", "hosts=n1:2,n2:4,n3:4"},
		{"hostfile", filepath.Join(dir, "hosts"), "hosts=n1:2,n2:4,n3:4"},
		{"file", "info", "host=n2 wdir=/tmp"},
		{"file", "chain", "hosts=n1:2,n2:4,n3:4"},
		{"host", "n1", "host=n1"},
		{"hostfile", "user", `info key "hostfile": user:1: only hosts and slots are allowed in this file`},
		{"hostfile", "addr", `info key "hostfile": addr:1: only hosts and slots are allowed in this file`},
		{"hostfile", "code", `info key "hostfile": code:1: only hosts and slots are allowed in this file`},
		{"hostfile", "env", `info key "hostfile": env:1: only hosts and slots are allowed in this file`},
		{"file", "runs", `info key "file": runs: path= is not allowed in this file`},
		{"hostfile", "secret", `info key "hostfile": secret:1: this is not a line of a host file`},
		{"hostfile", "missing", `info key "hostfile": missing: no such file or directory`},
		{"hostfile", "pipe", `info key "hostfile": pipe is not a regular file`},
		{"file", "pipe", `info key "file": pipe is not a regular file`},
		{"hostfile", "/dev/zero", `info key "hostfile": /dev/zero is not a regular file`},
		{"file", "/dev/zero", `info key "file": /dev/zero is not a regular file`},
		{"file", "/dev/ptmx", `info key "file": /dev/ptmx is not a regular file`},
		{"hostfile", ".", `info key "hostfile": . is not a regular file`},
		{"hostfile", "large", `info key "hostfile": large is too large; at most 1048576 bytes are allowed`},
	} {
		commands := []spawn.Command{{Info: []spawn.Pair{{Key: test.key, Value: test.value}}}}
		err := expandFiles(commands, dir)
		var words []string
		for _, p := range commands[0].Info {
			words = append(words, p.Key+"="+p.Value)
		}
		got := strings.Join(words, " ")
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s=%s: got %q, want %q", test.key, test.value, got, test.want)
		}
	}
}
