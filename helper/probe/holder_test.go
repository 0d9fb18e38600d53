//go:build linux

package probe

import (
	"fmt"
	"testing"
	"testing/fstest"
)

// The nearest process of a batch system above this one is found, whatever names processes have. Without a sign of a
// batch system in the environment, the test does not search.
func TestHolder(t *testing.T) {
	root := fstest.MapFS{}
	for pid, p := range map[int]struct {
		name   string
		parent int
	}{9: {"mpiexec", 8}, 8: {"a ) b (", 7}, 7: {"slurmstepd", 6}, 6: {"sge_shepherd-4", 1}, 5: {"sshd", 1}, 4: {"x", 4}, 1: {"init", 0}} {
		root[fmt.Sprintf("proc/%d/stat", pid)] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d (%s) S %d 1 1\n", pid, p.name, p.parent)}
	}
	root["proc/3/stat"] = &fstest.MapFile{Data: []byte("junk")}
	inside := []string{"SLURM_JOB_ID=7"}
	for _, test := range []struct {
		pid     int
		environ []string
		want    string
	}{{9, inside, "slurmstepd"}, {9, nil, ""}, {6, inside, "sge_shepherd-4"}, {5, inside, ""}, {4, inside, ""}, {3, inside, ""}, {2, inside, ""}} {
		if got := batchDaemonAbove(root, test.environ, test.pid); got != test.want {
			t.Errorf("above %d, %q: %q, want %q", test.pid, test.environ, got, test.want)
		}
	}
}
