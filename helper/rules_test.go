//go:build linux

package helper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/wire"
)

// What the file of a node's administrator says holds, whatever mpiexec sends; and a file that
// others could have written lets nothing run, rather than anything.
func TestNodeFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, whose file it is")
	}
	clean := func(*testing.T, string) error { return nil }
	for _, test := range []struct {
		name  string
		text  string
		spoil func(t *testing.T, file string) error
		ranks int
		want  string // why nothing runs; empty: it does
		most  int    // for the plan
	}{
		{"no limits", "", clean, 9, "", -1},
		{"no jobs", `runJobs = "no"`, clean, 1, "runs no jobs (FILE)", -1},
		{"room", "maxproc = 2", clean, 2, "", 2},
		{"no room", "maxproc = 2", clean, 3, "may run 2 processes at a time (FILE)", 2},
		{"a fault", "\nmaxproc = \"x\"", clean, 1, `FILE:2: maxproc: "x" is neither a number nor "any"`, -1},
		{"another's file", "", func(_ *testing.T, file string) error { return os.Chown(file, 5, 5) }, 1, "FILE: belongs to uid 5, must be root's", -1},
		{"open to others", "", func(_ *testing.T, file string) error { return os.Chmod(file, 0o666) }, 1, "FILE: mode 0666: others than root may write to it", -1},
		{"open to a group", "", func(_ *testing.T, file string) error { return os.Chmod(file, 0o664) }, 1, "FILE: mode 0664: others than root may write to it", -1},
		{"a pipe", "", func(_ *testing.T, file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o644)) }, 1, "FILE: is no plain file", -1},
		{"none", "", func(_ *testing.T, file string) error { return os.Remove(file) }, 9, "", -1},
	} {
		file := filepath.Join(t.TempDir(), "node.toml")
		if err := errors.Join(os.WriteFile(file, []byte(test.text), 0o644), test.spoil(t, file)); err != nil {
			t.Fatal(err)
		}
		c := &clerk{nodeFile: file}
		m := &wire.Prepare{Claim: wire.Claim{Most: -1}, Ranks: make([]job.RankPlan, test.ranks)}
		barred := c.allow(m)
		if want := strings.ReplaceAll(test.want, "FILE", file); !strings.HasSuffix(barred, want) || (barred == "") != (want == "") {
			t.Errorf("%s: %q, want %q", test.name, barred, want)
		}
		if _, most := probe.Barred(c.nodeFile); most != test.most || barred == "" && m.Claim.Most != test.most {
			t.Errorf("%s: at most %d, in the claim %d; want %d", test.name, most, m.Claim.Most, test.most)
		}
	}
}
