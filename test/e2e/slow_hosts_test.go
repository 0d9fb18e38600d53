//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A dripping host sends a byte each second at one step, for ever.
var slowHosts = []struct {
	name string
	drip func(t *testing.T, l *lyingHelpers, drip string) (host string) // makes n2 drip, by that program; returns its line for the host file
	says string
}{
	{"SSH banner", func(t *testing.T, l *lyingHelpers, drip string) string {
		return l.serveSlowly(t, drip, "", "please wait\r\n")
	}, "n2: handshake: the key exchange did not finish in 20 s"},
	{"key exchange", func(t *testing.T, l *lyingHelpers, drip string) string {
		return l.serveSlowly(t, drip, "SSH-2.0-drip\r\n", "\x00\x00\x00\x0c\x0a\x02aaaaaaaaaa")
	}, "n2: handshake: the key exchange did not finish in 20 s"},
	{"output of the login shell", func(t *testing.T, l *lyingHelpers, _ string) string {
		l.addStartupFile(t, "n2", "while printf x; do sleep 1; done\n")
		return "n2"
	}, `n2: shell: the login shell did not run /bin/sh within 20 s; it printed "x`},
	{"frames of the helper", func(t *testing.T, l *lyingHelpers, drip string) string {
		script := filepath.Join(l.dir, "helper")
		text := fmt.Sprintf(": %s%q \"$@\" | %q\n", l.build, l.program, drip)
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return "n2 path=" + script
	}, "n2: mpiexec on the host was started, but did not answer within "},
}

// A host that drips holds nothing up: a start fails with the step in which it drips, or goes on without it, and what only asks
// tells of the others.
func TestDrippingHosts(t *testing.T) {
	t.Parallel()
	for _, test := range slowHosts {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLyingHelpers(t)
			drip := filepath.Join(l.dir, "drip")
			if err := build(drip, "./testdata/drip"); err != nil {
				t.Fatal(err)
			}
			hosts := hostFile(t, "n1 slots=1", test.drip(t, l, drip))
			ask := func(args ...string) *runningJob {
				args = append([]string{"--connect-timeout", "20", "--shell-timeout", "20", "-f", hosts}, args...)
				return l.startMpiexec(t, mpiexecCall{args: args, env: []string{"SHELL=/bin/bash"}})
			}
			start, skip, ps, doctor := ask("-n", "2", "echo", "ran"), ask("--skip-unreachable", "-n", "1", "echo", "ran"), ask("--ps"), ask("--doctor")
			if r := start.wait(t); r.code != 125 || r.out != "" || !strings.Contains(r.err, "mpiexec: "+test.says) {
				t.Errorf("start: exit %d, %q, %q", r.code, r.out, r.err)
			}
			if r := skip.wait(t); r.code != 0 || r.out != "ran\n" || !strings.Contains(r.err, "mpiexec: "+test.says) || !strings.Contains(r.err, "; skipped\n") {
				t.Errorf("--skip-unreachable: exit %d, %q, %q", r.code, r.out, r.err)
			}
			if r := ps.wait(t); r.code != 0 || !strings.Contains(r.err, "mpiexec: "+test.says) {
				t.Errorf("--ps: exit %d, %q, %q", r.code, r.out, r.err)
			}
			if r := doctor.wait(t); r.code != 125 || !strings.Contains(r.out, "failure  "+test.says) || !strings.Contains(r.out, "n1 ") || !strings.Contains(r.out, "2 hosts, 1 reached") {
				t.Errorf("--doctor: exit %d, %q, %q", r.code, r.out, r.err)
			}
		})
	}
}

// addStartupFile is the start-up file of bash on a host.
func (b *testCluster) addStartupFile(t *testing.T, host, text string) {
	t.Helper()
	if err := os.WriteFile(b.Root(host)+"/root/.bashrc", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serveSlowly has the program listen on n2, and returns the line of the host file that leads there.
func (l *lyingHelpers) serveSlowly(t *testing.T, drip, first, drips string) (line string) {
	t.Helper()
	cmd := l.On(t.Context(), "n2", drip, ":2200", strconv.Quote(first), strconv.Quote(drips))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	if up, err := bufio.NewReader(out).ReadString('\n'); up != "up\n" {
		t.Fatalf("%q, %v", up, err)
	}
	return "n2 port=2200"
}
