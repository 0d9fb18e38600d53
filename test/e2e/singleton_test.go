//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// An MPI program that was started by itself calls mpiexec when it spawns: it finds ours, has
// what it wants, and hears of what is refused, also that nothing can be started (pmi-wire.md
// 1.4).
func TestSingleton(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "spawn")
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	path := "PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH")
	for _, test := range []struct {
		args, env string
		code      int
		out       []string // sorted; the host's name is left out
		err       string   // that stderr has
	}{
		{"one 2", "", 0, []string{"children: 2 of 1 parents, appnum 0, sum 4", "children: 2 of 1 parents, appnum 0, sum 4", "parents: 1 and 2 children, sum 4"}, ""},
		{"nested 2", "", 0, []string{"children: 1 of 1 parents, appnum 0, sum 2", "children: 1 of 1 parents, appnum 0, sum 2",
			"parents: 1 and 1 children, sum 2", "parents: 1 and 1 children, sum 2"}, ""},
		{"missing", "", 0, []string{"spawn: refused"}, "spawn -n 2 /nowhere/at/all: localhost: program /nowhere/at/all: no such file"},
		{"host n1 1", "", 15, nil, "rank 0 on localhost: the spawn was refused: the job does not include n1 (allowed with --spawn-hosts n1)"},
		{"host n1 1", "MPIEXEC_SPAWN_HOSTS=n1", 0, []string{"children: 1 of 1 parents, appnum 0, sum 2", "parents: 1 and 1 children, sum 2"},
			"n1 now belongs to the job, because rank 0 on localhost requested it (MPIEXEC_SPAWN_HOSTS=n1)"},
		{"one 1", "MPIEXEC_TIMEOUT=soon", 15, nil, `"soon"`},
	} {
		j := mpiexecCall{env: []string{path, test.env}}
		if test.env == "" {
			j.env = j.env[:1]
		}
		r := b.startCommand(t, j, append([]string{program}, strings.Fields(test.args)...)).wait(t)
		var out []string
		for line := range strings.Lines(strings.Join(sortedLines(r.out), "\n")) {
			line = strings.TrimSuffix(line, "\n")
			before, after, placed := strings.Cut(line, " on ")
			if _, rest, more := strings.Cut(after, ","); placed && more {
				line = before + "," + rest
			}
			out = append(out, line)
		}
		if r.code != test.code || !slices.Equal(out, test.out) || !strings.Contains(r.err, test.err) {
			t.Errorf("%s %s: exit %d, %q\n got %q\nwant %q", test.env, test.args, r.code, r.err, out, test.out)
		}
	}
}
