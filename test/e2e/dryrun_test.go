//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// refusal returns what a message says: the first line of stderr that begins with mpiexec, with its hint.
func refusal(text string) string {
	_, line, _ := strings.Cut(text, "mpiexec: ")
	line, rest, _ := strings.Cut(line, "\n")
	if strings.HasPrefix(rest, "  hint: ") {
		hint, _, _ := strings.Cut(rest, "\n")
		line += "\n" + hint
	}
	return line
}

// A dry run said nothing of a program that a start would not find on a host. Both say it in the same words.
func TestDryRunSaysWhatAStartWouldRefuse(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	b.runOn(t, "n1", "sh", "-c", "printf '#!/bin/sh\n' >/tmp/prog; chmod 755 /tmp/prog; mkdir /tmp/here /tmp/bin; cp /tmp/prog /tmp/bin/other; cp /tmp/prog /tmp/plain; chmod 644 /tmp/plain")
	b.runOn(t, "n2", "sh", "-c", "cp /bin/true /tmp/plain; chmod 644 /tmp/plain")
	staged := filepath.Join(t.TempDir(), "brought")
	if err := os.WriteFile(staged, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, line, says string }{
		{"there is no such program on one host", "/tmp/prog", "n2: program /tmp/prog: no such file or directory"},
		{"no such program on any", "no-such-program", "n[1-2]: program no-such-program: not found in PATH"},
		{"not executable", "/tmp/plain", "n[1-2]: program /tmp/plain: permission denied"},
		{"no such directory", "-wdir /tmp/here true", "n2: working directory /tmp/here: no such file or directory"},
		{"the second program", "true : -n 2 /tmp/prog", "n2: program /tmp/prog: no such file or directory"},
		{"by its path", "-path /tmp/bin other", "n2: program other: not found in "},
		{"of a host without ranks", "-host n1:2 /tmp/prog", ""},
		{"which comes along", "-wdir /tmp --stage " + staged + " " + staged, ""},
		{"PATH of the ranks", "-host n1:2 -genv PATH /tmp/bin other", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := strings.Fields(test.line)
			if !strings.Contains(test.line, "-host ") {
				args = append([]string{"-host", "n1:2,n2:2"}, args...)
			}
			args = append([]string{"-n", "2", "-ppn", "1"}, args...)
			if strings.Contains(test.line, "-host ") {
				args = args[4:]
			}
			real := b.runMpiexec(t, args...)
			dry := b.runMpiexec(t, append([]string{"--dry-run"}, args...)...)
			if !strings.Contains(dry.out, "rank 0") && !strings.Contains(dry.out, "ranks") {
				t.Errorf("no plan: %s", dry.out)
			}
			if test.says == "" {
				if real.code != 0 || dry.code != 0 || dry.err != "" {
					t.Errorf("start: exit %d, %s\ndry run: exit %d, %s", real.code, real.err, dry.code, dry.err)
				}
				return
			}
			if got := refusal(dry.err); dry.code != 125 || !strings.Contains(got, test.says) {
				t.Errorf("dry run: exit %d, %s\nwant %s", dry.code, dry.err, test.says)
			}
			if !strings.Contains(refusal(real.err), test.says) {
				t.Errorf("start: exit %d, %s\nwant %s", real.code, real.err, test.says)
			}
		})
	}
}

// What its administrator has written of a host is part of a dry run, too.
func TestDryRunReadsLimitsOfAHost(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	b.addEtcFile(t, "n1", "limits.toml", "[limits]\nwalltime = 2\n")
	for _, args := range [][]string{nil, {"--dry-run"}} {
		r := b.runMpiexec(t, append(args, "-host", "n1:2,n2:2", "-n", "4", "true")...)
		if want := "/etc/remshell/limits.toml:1: [limits]: this file has no tables"; r.code != 125 || !strings.Contains(r.err, want) {
			t.Errorf("%v: exit %d, %s\nwant %s", args, r.code, r.err, want)
		}
	}
}
