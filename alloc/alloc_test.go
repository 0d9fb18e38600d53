package alloc

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"remshell/fault"
)

// What each batch system has given, and why what it has given must not be used.
func TestAllocations(t *testing.T) {
	files := fstest.MapFS{"nodes": {Data: []byte("p1\np1\np2\n")}, "pe": {Data: []byte("g1 2 all.q UNDEFINED\n")}}
	for _, test := range []struct{ name, env, want string }{
		{"none", "HOME=/root", "none"},
		{"slurm", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_TASKS_PER_NODE=2,1", "slurm 7 by SLURM_JOB_NODELIST: n1:2 n2:1"},
		{"slurm, CPUs of tasks", "SLURM_JOBID=7 SLURM_NODELIST=n1 SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=3 SLURM_CPUS_PER_TASK=4", "slurm 7 by SLURM_NODELIST: n1:12, 4 wide by SLURM_CPUS_PER_TASK"},
		{"slurm, whole nodes", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_TASKS_PER_NODE=1(x2) SLURM_JOB_CPUS_PER_NODE=8(x2)", "slurm 7 by SLURM_JOB_NODELIST: n1:8 n2:8"},
		{"slurm, counts of others", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_TASKS_PER_NODE=1,1,1", "SLURM_TASKS_PER_NODE: it counts 3 nodes, and SLURM_JOB_NODELIST names 2"},
		{"slurm, groups", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 SLURM_HET_SIZE=2", "inside slurm job 7, but its hosts cannot be read: the groups of a heterogeneous job are not read yet (seen: SLURM_JOB_ID, SLURM_JOB_NODELIST, SLURM_HET_SIZE)"},
		{"slurm, by srun", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4", "started 4 times by the batch system (srun -n 4?), and each would start the whole job"},
		{"lsf", "LSB_JOBID=1 LSB_MCPU_HOSTS=b1_1_b2_3", "lsf 1 by LSB_MCPU_HOSTS: b1:1 b2:3"},
		{"sge", "JOB_ID=2 PE_HOSTFILE=pe", "sge 2 by PE_HOSTFILE: g1:2"},
		{"a JOB_ID of somebody", "JOB_ID=2", "none"},
		{"pbs", "PBS_JOBID=3 PBS_NODEFILE=nodes", "pbs 3 by PBS_NODEFILE: p1:2 p2:1"},
		{"pbs, no file", "PBS_JOBID=3 PBS_NODEFILE=gone", "PBS_NODEFILE: host file gone: file does not exist"},
		{"pbs, no list", "PBS_JOBID=3", "inside pbs job 3, but its hosts cannot be read: PBS_NODEFILE is not set (seen: PBS_JOBID)"},
		{"flux inside of slurm", "FLUX_JOB_ID=f1 SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1", "inside flux job f1, but its hosts cannot be read: lists of flux are not read yet (seen: FLUX_JOB_ID)"},
		{"cobalt", "COBALT_JOBID=4 COBALT_NODEFILE=nodes", "inside cobalt job 4, but its hosts cannot be read: lists of cobalt are not read yet (seen: COBALT_JOBID, COBALT_NODEFILE)"},
		{"loadleveler", "LOADL_STEP_ID=5", "inside ll job 5, but its hosts cannot be read: lists of ll are not read yet (seen: LOADL_STEP_ID)"},
	} {
		env := make(map[string]string)
		for assignment := range strings.FieldsSeq(test.env) {
			name, value, _ := strings.Cut(assignment, "=")
			if name == "LSB_MCPU_HOSTS" {
				value = strings.ReplaceAll(value, "_", " ")
			}
			env[name] = value
		}
		world := World{
			Env:  func(name string) (string, bool) { value, defined := env[name]; return value, defined },
			Open: func(name string) (io.ReadCloser, error) { return files.Open(name) },
		}
		if got := told(world); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
	}
}

// told puts an allocation into words.
func told(w World) string {
	a, inside := Inside(w)
	if !inside {
		return "none"
	}
	if err := a.Once(); err != nil {
		return err.Error()
	}
	if err := a.Check(); err != nil {
		if fault.Hint(err) != "name hosts with -host, or run here with -rmk none" {
			return "no way out: " + err.Error()
		}
		return err.Error()
	}
	hosts, err := a.Hosts()
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %s by %s:", a.System, a.Job, a.Source())
	for _, e := range hosts {
		text += fmt.Sprintf(" %s:%d", e.Host, e.Slots)
	}
	if cpus, variable := a.Width(); cpus > 1 {
		text += fmt.Sprintf(", %d wide by %s", cpus, variable)
	}
	return text
}
