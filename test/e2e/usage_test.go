//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// Used are the figures of a report.
type usageFigures struct {
	CPU  float64 `json:"cput"`
	Mem  int64
	VMem int64
	Wall float64 `json:"walltime"`
}

// RM-51, RM-52 and RM-53: what the detached grandchild of a rank burns is in the figures of the rank, of
// its host and of the job, also where the parent between them is gone and the rank ends before it.
func TestWhatWholeTreesUse(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	// A second of CPU time, by its own account. Who reads what it writes knows when it is over.
	const burn = `until read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user system _ <"/proc/$$/stat"; [ $((user + system)) -ge 100 ]; do :; done; echo burnt; exec sleep 1000 >/dev/null 2>&1`
	const script = `case $MPIEXEC_RANK in 0|3) echo $( (setsid sh -c "$0" &) );; esac`
	dir := t.TempDir()
	report := filepath.Join(dir, "report")
	r := b.runMpiexec(t, "--no-pin", "--usage=rank", "--report", report, "-host", "n1:2,n2:2", "-n", "4", "sh", "-c", script, burn)
	if r.code != 0 || r.out != "burnt\nburnt\n" {
		t.Fatalf("exit %d, %q, %s", r.code, r.out, r.err)
	}
	var told struct {
		Exits []struct {
			Rank int
			usageFigures
		}
		Usage []struct {
			Node string
			usageFigures
		}
		All struct {
			usageFigures
			Sampled bool
			Reason  string
		}
	}
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &told)
	}
	if err != nil || len(told.Exits) != 4 || len(told.Usage) != 2 {
		t.Fatalf("%v in %s", err, text)
	}
	for _, e := range told.Exits {
		if burns := e.Rank == 0 || e.Rank == 3; burns != (e.CPU >= 1) {
			t.Errorf("rank %d used %v s", e.Rank, e.CPU)
		}
	}
	for _, h := range told.Usage {
		if h.CPU < 1 || h.Mem <= 0 || h.VMem < h.Mem {
			t.Errorf("%s used %+v", h.Node, h.usageFigures)
		}
	}
	if all := told.All; all.CPU < 2 || all.Mem < told.Usage[0].Mem || all.Wall <= 0 || !all.Sampled || all.Reason != "ok" {
		t.Errorf("the job used %+v", all)
	}
	four := r.err[max(0, strings.Index(r.err, "resources_used.")):]
	if strings.Count(four, "\n") != 4 || strings.Count(four, "resources_used.") != 4 || strings.HasPrefix(four, "resources_used.cput = 00:00:00") {
		t.Errorf("the lines are %q, stderr\n%s", four, r.err)
	}
}

// The four lines alone, and what is no word for what is to be told.
func TestUsageLines(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	if r := b.runMpiexec(t, "--usage=lines", "-host", "n1", "-n", "1", "true"); r.code != 0 || !strings.HasPrefix(r.err, "resources_used.cput = ") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	if r := b.runMpiexec(t, "--usage=much", "-host", "n1", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "hosts, rank, lines") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

// The seed's first and third example: what is told of a job is the time of all its ranks, wherever they ran, and
// where they were reached by ssh, -v says that the batch system knows nothing of it.
func TestUsageOfALooseJob(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	// A second of CPU time each, by its own account.
	const burn = `until read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user system _ <"/proc/$$/stat"; [ $((user + system)) -ge 100 ]; do :; done`
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-v", "--no-pin", "-launcher", "ssh", "--usage=lines", "sh", "-c", burn},
		env: []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_TASKS_PER_NODE=2(x3)", "SLURM_NTASKS=6"}}).wait(t)
	if r.code != 0 || !strings.Contains(r.err, "Slurm does not see the ranks on 3 hosts, because ssh started them\n") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	_, cput, _ := strings.Cut(r.err, "resources_used.cput = ")
	var hours, minutes, seconds int
	if _, err := fmt.Sscanf(cput, "%d:%d:%d", &hours, &minutes, &seconds); err != nil || 3600*hours+60*minutes+seconds < 6 {
		t.Errorf("6 ranks of a second each have used %.8q, %v", cput, err)
	}
}
