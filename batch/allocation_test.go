package batch

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"remshell/pin"
	"remshell/usererr"
)

// files are those that the variables of the tests name.
var files = fstest.MapFS{
	"nodes": {Data: []byte("p1\np1\np2\n")}, "empty": {}, "blank": {Data: []byte("\n \r\n")}, "dash": {Data: []byte("-oProxyCommand=x\n")},
	"dashpe": {Data: []byte("n1 2\n-n2 4\n")}, "dashcpus": {Data: []byte("h1 0\n-h2 1\n")},
	"nodes1": {Data: []byte("n1\r\nn1 \n\nn2\nn1\nn3\nn3")}, "nodes2": {Data: []byte("n1\nn1\nn2\nn2\n")}, "nodes3": {Data: []byte("n1 4\n")},
	"gpus": {Data: []byte("p1-gpu0\np1-gpu1\np2.cluster-gpu0\n")}, "badgpus": {Data: []byte("p9-gpu0\n")},
	"pe":    {Data: []byte("n1 2 all.q@n1 UNDEFINED\nn2 4 all.q@n2 <NULL>\nn1 1 big.q@n1 0,0:0,1\n")},
	"badpe": {Data: []byte("n1 2\nn2 x\n")}, "badpair": {Data: []byte("n1 2 q 0,0:1\n")},
	"pairs": {Data: []byte("n1 2 q 0,0:0,1\nn1 1 q 1,0\n")}, "someaff": {Data: []byte("h1 0\nh1\n")},
	"aff": {Data: []byte("h1 0,1\nh1 2-3 0 1\nh2 0\n")}, "ll": {Data: []byte("l1\nl2\nl1\n")},
	"cobalt": {Data: []byte("c1 c2\nc1\n")},
	"counts": {Data: []byte("n1 4\nn2 2\n")},
}

// world has variables written as "A=1 B=2"; an underscore with a tilde is a blank.
func world(text string) Inputs {
	env := make(map[string]string)
	for assignment := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(assignment, "=")
		env[name] = strings.ReplaceAll(value, "~", " ")
	}
	return Inputs{
		Env:  func(name string) (string, bool) { value, defined := env[name]; return value, defined },
		Open: func(name string) (io.ReadCloser, error) { return files.Open(name) },
		Run: func(name string, args ...string) (string, error) {
			if answer, known := env["RUN"]; known {
				return answer, nil
			}
			return "", errors.New("flux: command not found")
		},
	}
}

// What each batch system has given, and why what it has given must not be used. The numbers are
// those of the examples of the page.
func TestAllocations(t *testing.T) {
	const step = "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_CPUS_PER_NODE=4,2 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n1 SLURM_STEP_TASKS_PER_NODE=1 SLURM_CPUS_ON_NODE=4 SLURM_TASKS_PER_NODE=1 SLURM_NTASKS=1"
	const het = "SLURM_JOB_ID=7 SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=n1 SLURM_TASKS_PER_NODE_HET_GROUP_0=1 SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3] SLURM_TASKS_PER_NODE_HET_GROUP_1=3,1 SLURM_NTASKS=5"
	const r = `RUN={"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3","gpu":"0"}},{"rank":"3","children":{"core":"0,2"}}],"nodelist":["f[1-2]","f9"],"expiration":1700000000}} `
	tried := map[string]bool{"condor": true} // condor_test.go
	for _, test := range []struct{ name, env, want string }{
		{"none", "HOME=/root", "none"},
		{"1 pbs, a line is a CPU", "PBS_JOBID=3 PBS_NODEFILE=nodes1 PBS_NP=6 NCPUS=9", "pbs 3 by PBS_NODEFILE: n1:3/3 n2:1/1 n3:2/2"},
		{"2 pbs, a line is a process", "PBS_JOBID=3 PBS_NODEFILE=nodes2 NCPUS=8", "pbs 3 by PBS_NODEFILE: n1:2/8 n2:2/8, 4 wide by NCPUS"},
		{"3 pbs, a count", "PBS_JOBID=3 PBS_NODEFILE=nodes3", `PBS_NODEFILE line 1: unexpected "4" after the host name`},
		{"pbs, no file", "PBS_JOBID=3 PBS_NODEFILE=gone", "mpiexec cannot read the hosts of PBS job 3: PBS_NODEFILE: open gone: file does not exist"},
		{"pbs, no list", "PBS_JOBID=3", "mpiexec cannot read the hosts of PBS job 3: PBS_NODEFILE is not set"},
		{"pbs, empty", "PBS_JOBID=3 PBS_NODEFILE=blank", "mpiexec cannot read the hosts of PBS job 3: PBS_NODEFILE: blank is empty"},
		{"pbs: an option", "PBS_JOBID=3 PBS_NODEFILE=dash", `PBS_NODEFILE line 1: "-oProxyCommand=x" is not a host name`},
		{"pbs, GPUs", "PBS_JOBID=3 PBS_NODEFILE=nodes PBS_GPUFILE=gpus", "pbs 3 by PBS_NODEFILE: p1:2/2(gpu 0,1) p2:1/1(gpu 0)"},
		{"pbs, GPUs of others", "PBS_JOBID=3 PBS_NODEFILE=nodes PBS_GPUFILE=badgpus", `PBS_GPUFILE line 1: PBS_NODEFILE does not list the host "p9"`},
		{"pbsdsh", "PBS_JOBID=3 PBS_NODEFILE=nodes PBS_TASKNUM=2", "the batch system started several copies of mpiexec (probably with pbsdsh), and each copy would start the whole job"},
		{"4 slurm, ranges", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=tux[0-2,05,9-11],~a[1-2]b[01-02]c", "slurm 7 by SLURM_JOB_NODELIST: tux0:1/1 tux1:1/1 tux2:1/1 tux05:1/1 tux9:1/1 tux10:1/1 tux11:1/1 a1b01c:1/1 a1b02c:1/1 a2b01c:1/1 a2b02c:1/1"},
		{"5 slurm, backwards", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=x[3-1]", `SLURM_JOB_NODELIST: reversed range "3-1"`},
		{"5 slurm, open", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=x[1", `SLURM_JOB_NODELIST: missing "]"`},
		{"5 slurm, nested", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=x[1-2[3]]", `SLURM_JOB_NODELIST: nested "["`},
		{"6 slurm", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-3] SLURM_NTASKS=11 SLURM_TASKS_PER_NODE=4(x2),3 SLURM_JOB_CPUS_PER_NODE=16(x3) SLURM_CPUS_PER_TASK=4", "slurm 7 by SLURM_JOB_NODELIST: n1:4/16 n2:4/16 n3:3/16, 4 wide by SLURM_CPUS_PER_TASK"},
		{"7 slurm, counts of others", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-3] SLURM_NTASKS=8 SLURM_TASKS_PER_NODE=4(x2)", "SLURM_TASKS_PER_NODE has 2 entries, but the number of hosts is 3"},
		{"slurm, one count for all", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-3] SLURM_NTASKS=6 SLURM_TASKS_PER_NODE=2", "slurm 7 by SLURM_JOB_NODELIST: n1:2/2 n2:2/2 n3:2/2"},
		{"slurm, no count", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 SLURM_NTASKS=6 SLURM_TASKS_PER_NODE=2(x0)", `SLURM_TASKS_PER_NODE: "2(x0)" is not a count such as 2 or 2(x3)`},
		{"slurm, too many", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[0-65535],m", "SLURM_JOB_NODELIST: the list has more than 65536 hosts"},
		{"slurm, far too many", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[0-9999][0-9999]", "SLURM_JOB_NODELIST: the list has more than 65536 hosts"},
		{"slurm, no list", "SLURM_JOB_ID=12", "mpiexec cannot read the hosts of Slurm job 12: SLURM_JOB_NODELIST is not set"},
		{"slurm, CPUs of tasks", "SLURM_JOBID=7 SLURM_NODELIST=n1 SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=3 SLURM_CPUS_PER_TASK=4", "slurm 7 by SLURM_NODELIST: n1:3/12, 4 wide by SLURM_CPUS_PER_TASK"},
		{"slurm, whole nodes", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_TASKS_PER_NODE=1(x2) SLURM_JOB_CPUS_PER_NODE=8(x2)", "slurm 7 by SLURM_JOB_NODELIST: n1:8/8 n2:8/8"},
		{"8 slurm, groups by salloc", het, "slurm 7 by SLURM_JOB_NODELIST_HET_GROUP_0: n1:1/1 n2:3/3 n3:1/1"},
		{"9 slurm, groups by sbatch", het + " SLURM_JOB_NODELIST=n1 SLURM_TASKS_PER_NODE=1 SLURM_NTASKS=1", "slurm 7 by SLURM_JOB_NODELIST_HET_GROUP_0: n1:1/1 n2:3/3 n3:1/1"},
		{"slurm, old groups", strings.ReplaceAll(het, "HET_", "PACK_"), "slurm 7 by SLURM_JOB_NODELIST_PACK_GROUP_0: n1:1/1 n2:3/3 n3:1/1"},
		{"slurm, a group is missing", "SLURM_JOB_ID=7 SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=n1", "mpiexec cannot read the hosts of Slurm job 7: SLURM_JOB_NODELIST_HET_GROUP_1 is not set"},
		{"10 slurm, a step", step, "slurm 7 by SLURM_STEP_NODELIST: n1:1/4"},
		{"10 slurm, all of the job", "SCOPE=job " + step, "slurm 7 by SLURM_JOB_NODELIST: n1:4/4 n2:2/2"},
		{"11 slurm, interactive", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_STEP_ID=4294967290 SLURM_STEP_NODELIST=n1 SLURM_NTASKS=6 SLURM_TASKS_PER_NODE=4,2", "slurm 7 by SLURM_JOB_NODELIST: n1:4/4 n2:2/2"},
		{"12 slurm, a terminal", step + " SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=6 SLURM_PTY_PORT=9", "slurm 7 by SLURM_JOB_NODELIST: n1:4/4 n2:2/2"},
		{"12 slurm, by srun", step + " SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=6", "the batch system started several copies of mpiexec (probably with srun -n 6), and each copy would start the whole job"},
		{"slurm, GPUs of the script's node", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURMD_NODENAME=N2 SLURM_JOB_GPUS=3,0-1 SLURM_STEP_GPUS=7", "slurm 7 by SLURM_JOB_NODELIST: n1:1/1 n2:1/1(gpu 3,0-1)"},
		{"slurm, GPUs of the only node", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 SLURM_JOB_GPUS=1", "slurm 7 by SLURM_JOB_NODELIST: n1:1/1(gpu 1)"},
		{"slurm, GPUs of a step", step + " SLURM_JOB_GPUS=0-3 SLURM_STEP_GPUS=2", "slurm 7 by SLURM_STEP_NODELIST: n1:1/4(gpu 2)"},
		{"slurm, GPUs of somewhere", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_GPUS=0", "slurm 7 by SLURM_JOB_NODELIST: n1:1/1 n2:1/1"},
		{"slurm, GPUs in other words", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 SLURM_JOB_GPUS=a100:2", `slurm 7 by SLURM_JOB_NODELIST: n1:1/1; warning: SLURM_JOB_GPUS is ignored, because "a100:2" is not a list of GPUs`},
		{"13 lsf, half a pair", "LSB_JOBID=1 LSB_MCPU_HOSTS=hostA~4~hostB", `LSB_MCPU_HOSTS: the slot count of "hostB" is missing`},
		{"14 lsf, unreadable", "LSB_JOBID=7 LSB_DJOB_HOSTFILE=/gone LSB_MCPU_HOSTS=a~1", "mpiexec cannot read the hosts of LSF job 7: LSB_DJOB_HOSTFILE: open /gone: file does not exist"},
		{"lsf", "LSB_JOBID=1 LSB_JOBINDEX=4 LSB_MCPU_HOSTS=b1~1~b0~0~b2~3", "lsf 1[4] by LSB_MCPU_HOSTS: b1:1/1 b2:3/3"},
		{"lsf, words", "LSB_JOBID=1 LSB_JOBINDEX=0 LSB_HOSTS=b1~b2~b1 LSB_DJOB_NUMPROC=4", "lsf 1 by LSB_HOSTS: b1:2/2 b2:1/1; warning: LSB_DJOB_NUMPROC is 4 but LSB_HOSTS lists 3 slots; using 3"},
		{"lsf, bound", "LSB_JOBID=1 LSB_AFFINITY_HOSTFILE=aff LSB_DJOB_HOSTFILE=nodes", "lsf 1 by LSB_AFFINITY_HOSTFILE: h1:2/2[0,1,2-3] h2:1/1[0]"},
		{"lsf, not bound", "LSB_JOBID=1 LSB_AFFINITY_HOSTFILE=empty LSB_DJOB_RANKFILE=gone LSB_DJOB_HOSTFILE=nodes", "lsf 1 by LSB_DJOB_HOSTFILE: p1:2/2 p2:1/1"},
		{"lsf, nothing", "LSB_JOBID=1", "mpiexec cannot read the hosts of LSF job 1: none of LSB_AFFINITY_HOSTFILE, LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, LSB_HOSTS is set"},
		{"lsf, bound in part", "LSB_JOBID=1 LSB_AFFINITY_HOSTFILE=someaff", "lsf 1 by LSB_AFFINITY_HOSTFILE: h1:2/2[0 of some]"},
		{"sge, all processors told", "JOB_ID=2 SGE_TASK_ID=undefined PE_HOSTFILE=pairs", "sge 2 by PE_HOSTFILE: n1:3/3[0,0:0,1,1,0 in sockets]"},
		{"15 sge", "JOB_ID=2 SGE_TASK_ID=undefined PE_HOSTFILE=pe NSLOTS=8", "sge 2 by PE_HOSTFILE: n1:3/3[0,0:0,1 in sockets of some] n2:4/4; warning: NSLOTS is 8 but PE_HOSTFILE lists 7 slots; using 7"},
		{"sge, no count", "JOB_ID=2 PE_HOSTFILE=badpe", `PE_HOSTFILE line 2: "x" is not a slot count`},
		{"sge, no pair", "JOB_ID=2 PE_HOSTFILE=badpair", `PE_HOSTFILE line 1: "1" is not SOCKET,CORE`},
		{"sge, no environment", "JOB_ID=2 SGE_TASK_ID=3 NSLOTS=2", "sge 2.3 by NSLOTS: localhost:2/2"},
		{"a JOB_ID of somebody", "JOB_ID=2", "none"},
		{"16 flux, no program", "FLUX_JOB_ID=f12", "mpiexec cannot read the hosts of Flux job f12: flux: command not found"},
		{"flux inside of slurm", r + "FLUX_JOB_ID=f1 SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1", "flux f1 by flux job info: f1:4/4[0-3 cores](gpu 0) f2:4/4[0-3 cores](gpu 0) f9:2/2[0,2 cores], ends 1700000000"},
		{"flux, an instance", r + "FLUX_URI=local FLUX_ENCLOSING_ID=f2", "flux f2 by flux resource R: f1:4/4[0-3 cores](gpu 0) f2:4/4[0-3 cores](gpu 0) f9:2/2[0,2 cores], ends 1700000000"},
		{"flux, another version", `RUN={"version":2} FLUX_JOB_ID=f1`, "flux job info: the output of flux has version 2, but mpiexec reads only version 1"},
		{"flux: too many ranks", `RUN={"version":1,"execution":{"R_lite":[{"rank":"0-999999","children":{"core":"0"}}],"nodelist":["a"]}} FLUX_JOB_ID=f1`, "flux job info: the output of flux lists too few hosts for its ranks (1)"},
		{"flux, no cores", `RUN={"version":1,"execution":{"R_lite":[{"rank":"0","children":{}}],"nodelist":["a"]}} FLUX_JOB_ID=f1`, "flux job info: the output of flux lists no cores for rank 0"},
		{"flux run", "FLUX_JOB_ID=f1 FLUX_TASK_RANK=0 FLUX_JOB_SIZE=4", "the batch system started several copies of mpiexec (probably with flux run -n 4), and each copy would start the whole job"},
		{"17 cobalt, a part", "COBALT_JOBID=4 COBALT_PARTNAME=1-3,7", "cobalt 4 by COBALT_PARTNAME: nid00001:0/0 nid00002:0/0 nid00003:0/0 nid00007:0/0, uncounted"},
		{"cobalt, names", "COBALT_JOBID=4 COBALT_PARTNAME=c1:c2:c1 COBALT_ENDTIME=1700000000", "cobalt 4 by COBALT_PARTNAME: c1:2/2 c2:1/1, ends 1700000000"},
		{"cobalt, a file", "COBALT_JOBID=4 COBALT_NODEFILE=cobalt", "cobalt 4 by COBALT_NODEFILE: c1:2/2 c2:1/1"},
		{"cobalt, nothing", "COBALT_JOBID=4", "mpiexec cannot read the hosts of Cobalt job 4: neither COBALT_NODEFILE nor COBALT_PARTNAME is set"},
		{"loadleveler", "LOADL_STEP_ID=a.1 LOADL_HOSTFILE=ll LOADL_TOTAL_TASKS=4", "ll a.1 by LOADL_HOSTFILE: l1:2/2 l2:1/1; warning: LOADL_TOTAL_TASKS is 4 but LOADL_HOSTFILE lists 3 slots; using 3"},
		{"loadleveler, words", "LOADL_STEP_ID=a.1 LOADL_PROCESSOR_LIST=l1~l2", "ll a.1 by LOADL_PROCESSOR_LIST: l1:1/1 l2:1/1"},
		{"alps", "ALPS_APP_ID=1", "ALPS does not list the hosts of its jobs"},
		{"two systems", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=p[1-3] PBS_JOBID=3 PBS_NODEFILE=nodes", "slurm 7 by SLURM_JOB_NODELIST: p1:1/1 p2:1/1 p3:1/1; beside pbs"},
		{"one as another", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=p[1-2] PBS_JOBID=3 PBS_NODEFILE=nodes", "slurm 7 by SLURM_JOB_NODELIST: p1:1/1 p2:1/1"},
	} {
		w := world(test.env)
		if got := told(t, w); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
		if s, _ := Inside(w); s != nil {
			tried[s.Name] = true
		}
	}
	needCases(t, tried, func(*System) bool { return true })
}

// A host whose name begins as an option is refused by every reader, with where it stands: names become arguments of
// programs that reach hosts.
func TestNoHostIsAnOption(t *testing.T) {
	const r = `RUN={"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":["-oProxyCommand=x"]}} `
	const het = " SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=n1 SLURM_JOB_NODELIST_HET_GROUP_1=-n2"
	tried := make(map[string]bool)
	for env, where := range map[string]string{
		"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1,-n2":                                    "SLURM_JOB_NODELIST",
		"SLURM_JOB_ID=7 SLURM_JOB_NODELIST=-n[1-2]":                                   "SLURM_JOB_NODELIST",
		"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=-n1":                      "SLURM_STEP_NODELIST",
		"SLURM_JOB_ID=7" + het:                                                        "SLURM_JOB_NODELIST_HET_GROUP_1",
		"JOB_ID=2 PE_HOSTFILE=dashpe":                                                 "PE_HOSTFILE line 2",
		"PBS_JOBID=3 PBS_NODEFILE=dash":                                               "PBS_NODEFILE line 1",
		"PBS_JOBID=3 PBS_NODEFILE=nodes PBS_GPUFILE=dash":                             "PBS_GPUFILE line 1",
		"LSB_JOBID=1 LSB_AFFINITY_HOSTFILE=dashcpus":                                  "LSB_AFFINITY_HOSTFILE line 2",
		"LSB_JOBID=1 LSB_DJOB_HOSTFILE=dash":                                          "LSB_DJOB_HOSTFILE line 1",
		"LSB_JOBID=1 LSB_MCPU_HOSTS=-a~1":                                             "LSB_MCPU_HOSTS",
		"LSB_JOBID=1 LSB_HOSTS=a~-a":                                                  "LSB_HOSTS",
		"COBALT_JOBID=4 COBALT_NODEFILE=dash":                                         "COBALT_NODEFILE line 1",
		"COBALT_JOBID=4 COBALT_PARTNAME=a:-b":                                         "COBALT_PARTNAME",
		"LOADL_STEP_ID=1 LOADL_HOSTFILE=dash":                                         "LOADL_HOSTFILE line 1",
		"LOADL_STEP_ID=1 LOADL_PROCESSOR_LIST=-a":                                     "LOADL_PROCESSOR_LIST",
		"_CONDOR_PROCNO=0 _CONDOR_NPROCS=2 MACHINE_FILE=dash":                         "MACHINE_FILE line 1",
		"_CONDOR_PROCNO=0 _CONDOR_NPROCS=2 MACHINE_FILE=dashpe _CONDOR_SCRATCH_DIR=s": "MACHINE_FILE line 2",
		r + "FLUX_JOB_ID=f1":                                                          "flux job info",
	} {
		w := world(env)
		if got := told(t, w); !strings.HasPrefix(got, where+": ") || !strings.Contains(got, `: "-`) {
			t.Errorf("%s: %s", env, got)
		}
		if s, _ := Inside(w); s != nil {
			tried[s.Name] = true
		}
	}
	needCases(t, tried, listsHosts)
	for file, form := range map[string]string{"dash": FormNodes, "dashpe": FormCounts} {
		if _, err := Read("file", world(""), Options{File: file, Form: form}); err == nil || !strings.Contains(err.Error(), `: "-`) {
			t.Errorf("--rm-file %s:%s: %v", file, form, err)
		}
	}
}

// What a user says of an allocation.
func TestWishes(t *testing.T) {
	const het = "SLURM_JOB_ID=7 SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=n1 SLURM_TASKS_PER_NODE_HET_GROUP_0=1 SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3] SLURM_TASKS_PER_NODE_HET_GROUP_1=3,1"
	for _, test := range []struct {
		name, system, env string
		wish              Options
		want              string
	}{
		{"one group", "slurm", het, Options{Groups: []int{1}}, "slurm 7 by SLURM_JOB_NODELIST_HET_GROUP_0: n2:3/3 n3:1/1"},
		{"no such group", "slurm", het, Options{Groups: []int{2}}, "--het-group 2: Slurm job 7 has 2 groups, numbered from 0"},
		{"no groups", "slurm", "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1", Options{Groups: []int{0}}, "--het-group: Slurm job 7 has no groups"},
		{"groups of PBS", "pbs", "PBS_JOBID=3 PBS_NODEFILE=nodes", Options{Groups: []int{0}}, "--het-group works only in heterogeneous jobs of Slurm's, but the hosts come from PBS"},
		{"not inside", "lsf", "LSB_HOSTS=a", Options{}, "-rmk lsf: LSB_JOBID is not set"},
		{"a file", "file", "", Options{File: "nodes"}, "file  by nodes: p1:2/2 p2:1/1"},
		{"a file with counts", "file", "", Options{File: "counts", Form: FormCounts}, "file  by counts: n1:4/4 n2:2/2"},
		{"a file as of Grid Engine", "file", "", Options{File: "pe", Form: FormPE}, "file  by pe: n1:3/3[0,0:0,1 in sockets of some] n2:4/4"},
		{"a file without counts", "file", "", Options{File: "nodes", Form: FormCounts}, `--rm-file line 1: the slot count of "p1" is missing`},
		{"no file", "file", "", Options{}, "-rmk file: the name of the file is missing"},
		{"a file that is gone", "file", "", Options{File: "gone"}, "--rm-file: open gone: file does not exist"},
	} {
		a, err := Read(test.system, world(test.env), test.wish)
		if got := words(a, err); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestForm(t *testing.T) {
	for value, want := range map[string]string{"a": "a nodes", "a:pe": "a pe", "a:b:counts": "a:b counts", ":pe": ":pe nodes", "a:x": "a:x nodes"} {
		if file, form := Form(value); file+" "+form != want {
			t.Errorf("Form(%q) = %q, %q, want %s", value, file, form, want)
		}
	}
}

// told puts what is found into words.
func told(t *testing.T, w Inputs) string {
	system, _ := Inside(w)
	if system == nil {
		return "none"
	}
	a, err := Read(system.Name, w, Options{Job: w.value("SCOPE") == "job"})
	if err != nil && usererr.Hint(err) == "" {
		t.Errorf("no way out of %v", err)
	}
	return words(a, err)
}

func words(a Allocation, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case a.Idle:
		return "idle"
	}
	text := fmt.Sprintf("%s %s by %s:", a.System, a.Job, a.Source)
	for _, h := range a.Hosts {
		text += fmt.Sprintf(" %s:%d/%d", h.Name, h.Tasks, h.CPUs)
		if h.List != "" {
			text += "[" + h.List + map[pin.GrantNumbering]string{pin.CoreNumbers: " cores", pin.SocketCores: " in sockets"}[h.Numbering] + map[bool]string{true: " of some"}[h.PartialList] + "]"
		}
		if h.GPUs != "" {
			text += "(gpu " + h.GPUs + ")"
		}
		if h.Login != (Login{}) {
			text += fmt.Sprintf("(%s %d %s in %s)", h.Login.User, h.Login.Port, h.Login.Key, h.Folder)
		}
	}
	if a.Width > 1 {
		text += fmt.Sprintf(", %d wide by %s", a.Width, a.WidthFrom)
	}
	if !a.End.IsZero() {
		text += fmt.Sprintf(", ends %d", a.End.Unix())
	}
	if a.TasksUnknown {
		text += ", uncounted"
	}
	for _, warning := range a.Warnings {
		text += "; " + warning
	}
	if a.OtherSystem != "" {
		text += "; beside " + a.OtherSystem
	}
	return text
}

// Flux's programs know a host by the rank of its broker, whatever ranks a job has.
func TestRanksOfFlux(t *testing.T) {
	a, err := fluxResources(`{"version":1,"execution":{"R_lite":[{"rank":"2-3,7","children":{"core":"0"}},{"rank":"5","children":{"core":"0-1"}}],"nodelist":["a,b","c","d"]}}`)
	var ranks []int
	for _, h := range a.Hosts {
		ranks = append(ranks, h.Rank)
	}
	if err != nil || !slices.Equal(ranks, []int{2, 3, 7, 5}) {
		t.Errorf("ranks %v, %v", ranks, err)
	}
}
