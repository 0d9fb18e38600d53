//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// README's dry run, of hosts without a number of slots, had no plan unless --probe was there, too.
func TestADryRunLooksAtItsHosts(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 2})
	text, err := os.ReadFile(filepath.Join(repo, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`bin/mpiexec (-f hosts\.txt --dry-run \S+)`).FindSubmatch(text)
	if line == nil {
		t.Fatal("README has no dry run")
	}
	hosts := filepath.Join(t.TempDir(), "hosts.txt")
	if err := os.WriteFile(hosts, []byte("n1\nn2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.Replace(string(line[1]), "hosts.txt", hosts, 1))
	r := b.run(t, args...)
	if r.code != 0 || r.err != "" || !regexp.MustCompile(`(?m)^  n1\n    rank.* CPUs? `).MatchString(r.out) || !strings.Contains(r.out, "\n  n2\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.run(t, append(args, "--no-probe")...) // is an argument of the program
	if r.code != 0 {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.run(t, append([]string{"--no-probe"}, args...)...)
	if r.code != 125 || !strings.Contains(r.out, "no plan") || !strings.Contains(r.out, "no host was contacted") {
		t.Errorf("--no-probe: exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.run(t, "--dry-run", "-host", "n1,nowhere.invalid", "-n", "2", "true")
	if r.code != 125 || !strings.Contains(r.err, "nowhere.invalid: resolve: host name unknown") {
		t.Errorf("a host that is not there: exit %d\n%s%s", r.code, r.out, r.err)
	}
}
