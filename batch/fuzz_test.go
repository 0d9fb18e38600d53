package batch

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

// Lists come from an environment that anybody may have written. Whatever they say, a reader
// finds hosts with names that may be connected to, or says what is wrong; and it keeps no more
// than a small multiple of what it was given.
//
// Each is run alone: go test ./batch -fuzz 'FuzzSlurm$' -fuzztime 60s

// What reading may take, freed again or not: so much for each host that an allocation may have, and for each byte of
// the lists. A host is a name, an index of it, and what becomes of both while they grow.
const (
	hostCost = 4 << 10
	byteCost = 1 << 10
)

// allocated is how much memory work takes, freed again or not. Others that work meanwhile count, too.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// check reads what a batch system has given, and judges it.
func check(t *testing.T, system string, env map[string]string, files map[string]string, answer string) {
	w := Inputs{
		Env: func(name string) (string, bool) { value, defined := env[name]; return value, defined },
		Open: func(name string) (io.ReadCloser, error) {
			if text, known := files[name]; known {
				return io.NopCloser(strings.NewReader(text)), nil
			}
			return nil, errors.New("no such file")
		},
		Run: func(string, ...string) (string, error) { return answer, nil },
	}
	given := len(answer)
	for _, texts := range []map[string]string{env, files} {
		for _, text := range texts {
			given += len(text)
		}
	}
	var a Allocation
	var err error
	spent := allocated(func() { a, err = Read(system, w, Options{File: "f", Form: answer}) })
	most := uint64(1<<20 + given*byteCost)
	if system == "slurm" || system == "flux" || system == "cobalt" { // they fold names
		most += maxHosts * hostCost
	}
	if spent > most {
		t.Fatalf("%d bytes of lists took %d bytes of memory, more than %d", given, spent, most)
	}
	switch {
	case err != nil && (strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1000):
		t.Fatalf("%q", err)
	case err != nil && err.Error() == "":
		t.Fatal("an error that says nothing")
	case err != nil || a.Idle:
		return
	case len(a.Hosts) == 0 || len(a.Hosts) > maxHosts || a.Width < 1:
		t.Fatalf("%d hosts, %d wide", len(a.Hosts), a.Width)
	}
	seen := make(map[string]bool)
	for _, h := range a.Hosts {
		if hostName(h.Name) != nil || seen[key(h.Name)] || h.Tasks < 0 || h.CPUs < h.Tasks*a.Width {
			t.Fatalf("host %+v", h)
		}
		seen[key(h.Name)] = true
	}
}

func FuzzSlurm(f *testing.F) {
	f.Add("n[1-3],m", "4(x2),3,1", "16(x4)", "4", "2", "")
	f.Add("tux[0-2,05,9-11] a[1-2]b[01-02]c", "1", "", "", "", "n1")
	f.Add("n[0-65535][0-9]", "1(x999999999)", "(x", "-1", "99999999999", "x[1-2[3]]")
	f.Fuzz(func(t *testing.T, hosts, tasks, cpus, width, groups, step string) {
		env := map[string]string{"SLURM_JOB_ID": "1", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": hosts, "SLURM_TASKS_PER_NODE": tasks,
			"SLURM_JOB_CPUS_PER_NODE": cpus, "SLURM_CPUS_PER_TASK": width, "SLURM_HET_SIZE": groups,
			"SLURM_JOB_GPUS": cpus, "SLURM_STEP_GPUS": tasks, "SLURM_JOB_NODELIST_HET_GROUP_0": hosts, "SLURM_TASKS_PER_NODE_HET_GROUP_0": tasks, "SLURM_JOB_NODELIST_HET_GROUP_1": step}
		check(t, "slurm", env, nil, "")
		env["SLURM_STEP_ID"], env["SLURM_STEP_NODELIST"], env["SLURM_STEP_TASKS_PER_NODE"], env["SLURM_CPUS_ON_NODE"] = "0", step, tasks, cpus
		check(t, "slurm", env, nil, "")
	})
}

func FuzzPBS(f *testing.F) {
	f.Add("n1\nn1\r\nn2 \n", "n1-gpu0\n", "8")
	f.Fuzz(func(t *testing.T, nodes, gpus, cpus string) {
		check(t, "pbs", map[string]string{"PBS_JOBID": "1", "PBS_NODEFILE": "n", "PBS_GPUFILE": "g", "NCPUS": cpus}, map[string]string{"n": nodes, "g": gpus}, "")
	})
}

func FuzzLSF(f *testing.F) {
	f.Add("h1 0,1\nh2 2-3 0 1\n", "a\nb\n", "a 4 b 4", "a b a", "3")
	f.Add("", "", "a 0", "", "")
	f.Fuzz(func(t *testing.T, affinity, file, pairs, words, slots string) {
		env := map[string]string{"LSB_JOBID": "1", "LSB_AFFINITY_HOSTFILE": "a", "LSB_DJOB_RANKFILE": "f", "LSB_DJOB_NUMPROC": slots}
		files := map[string]string{"a": affinity, "f": file}
		check(t, "lsf", env, files, "")
		check(t, "lsf", map[string]string{"LSB_JOBID": "1", "LSB_MCPU_HOSTS": pairs}, nil, "")
		check(t, "lsf", map[string]string{"LSB_JOBID": "1", "LSB_HOSTS": words}, nil, "")
	})
}

func FuzzSGE(f *testing.F) {
	f.Add("n1 2 all.q@n1 UNDEFINED\nn2 4 all.q@n2 <NULL>\nn1 1 big.q@n1 0,0:0,1\n", "8")
	f.Fuzz(func(t *testing.T, pe, slots string) {
		check(t, "sge", map[string]string{"JOB_ID": "1", "PE_HOSTFILE": "p", "NSLOTS": slots}, map[string]string{"p": pe}, "")
		check(t, "sge", map[string]string{"JOB_ID": "1", "SGE_TASK_ID": slots, "NSLOTS": slots}, nil, "")
	})
}

func FuzzFlux(f *testing.F) {
	f.Add(`{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3","gpu":"0"}}],"nodelist":["f[1-2]"],"expiration":1.5e9}}`)
	f.Add(`{"version":1,"execution":{"R_lite":[{"rank":"0-999999999","children":{"core":"0-999999"}}],"nodelist":["f[1-99999]"]}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		check(t, "flux", map[string]string{"FLUX_JOB_ID": "f1"}, nil, answer)
	})
}

func FuzzCobalt(f *testing.F) {
	f.Add("a b\na\n", "1-3,7", "1700000000")
	f.Add("", "a:b:a", "")
	f.Fuzz(func(t *testing.T, nodes, part, end string) {
		check(t, "cobalt", map[string]string{"COBALT_JOBID": "1", "COBALT_NODEFILE": "n", "COBALT_ENDTIME": end}, map[string]string{"n": nodes}, "")
		check(t, "cobalt", map[string]string{"COBALT_JOBID": "1", "COBALT_PARTNAME": part}, nil, "")
	})
}

func FuzzLoadLeveler(f *testing.F) {
	f.Add("a\nb\na\n", "a b a", "3")
	f.Fuzz(func(t *testing.T, file, words, tasks string) {
		check(t, "ll", map[string]string{"LOADL_STEP_ID": "1", "LOADL_HOSTFILE": "f", "LOADL_TOTAL_TASKS": tasks}, map[string]string{"f": file}, "")
		check(t, "ll", map[string]string{"LOADL_STEP_ID": "1", "LOADL_PROCESSOR_LIST": words}, nil, "")
	})
}

func FuzzCondor(f *testing.F) {
	f.Add("0 n1 4444 u /s 7\n1 n2 4445 u /s 7\n", "ClusterId = 12\nProcId = 0\nRequestCpus = 2\n", "Cpus = 4\n", "0", "2")
	f.Add("a\nb 3\n", "", "", "0", "1")
	f.Fuzz(func(t *testing.T, contact, ad, machine, node, nodes string) {
		env := map[string]string{"_CONDOR_PROCNO": node, "_CONDOR_NPROCS": nodes, "_CONDOR_SCRATCH_DIR": "s"}
		texts := map[string]string{"s/contact": contact, "s/.job.ad": ad, "s/.machine.ad": machine, "m": contact}
		check(t, "condor", env, texts, "")
		env["MACHINE_FILE"] = "m"
		check(t, "condor", env, texts, "")
		check(t, "condor", map[string]string{"_CONDOR_JOB_AD": "s/.job.ad", "_CONDOR_SCRATCH_DIR": "s"}, texts, "")
	})
}

func FuzzFile(f *testing.F) {
	f.Add("a 2\nb 1\n", FormCounts)
	f.Add("a\nb\n", FormNodes)
	f.Add("a 2 q 0,0\n", FormPE)
	f.Fuzz(func(t *testing.T, text, form string) {
		var l list
		w := Inputs{Open: func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
		if missing, wrong := w.readLines("--rm-file", "f", l.lineParser(form)); missing == nil && wrong == nil && len(l.hosts) == 0 {
			t.Fatal("no hosts, and nothing is wrong")
		}
		name, of := Form("f:" + form)
		if name+":"+of != "f:"+form && (name != "f:"+form || of != FormNodes) {
			t.Fatalf("f:%s is %q in the form %q", form, name, of)
		}
		check(t, "file", nil, map[string]string{"f": text}, form)
	})
}

// What a list stands for is no reason to take memory: names beyond the bound are not written out.
func TestHugeListsAreRefused(t *testing.T) {
	for _, text := range []string{
		"n[0-999999999999]", "n[0-9999][0-9999]", "n[0-65535],m[0-65535]", "a[1-70000]",
		strings.Repeat("n[0-9]", 40), "n[" + strings.Repeat("0", 17) + "1-" + strings.Repeat("9", 18) + "]",
	} {
		names, err := expandHostlist(text)
		if err == nil || len(names) > 0 {
			t.Errorf("%.40s is %d names, %v", text, len(names), err)
		}
	}
	if _, err := counts("V", "1(x999999999999)", 3); err == nil || err.Error() != "V has 999999999999 entries, but the number of hosts is 3" {
		t.Errorf("counts: %v", err)
	}
}

// What many lines say of one host is put together once: neither time nor memory grows with the square
// of their number.
func TestALongFileOfOneHost(t *testing.T) {
	const lines = 100_000
	check(t, "sge", map[string]string{"PE_HOSTFILE": "f", "JOB_ID": "1", "NSLOTS": "1"}, map[string]string{"f": strings.Repeat("n1 1 q 0,0\n", lines)}, "")
	check(t, "pbs", map[string]string{"PBS_NODEFILE": "f", "PBS_GPUFILE": "g", "PBS_JOBID": "1"},
		map[string]string{"f": strings.Repeat("n1\n", lines), "g": strings.Repeat("n1-gpu0\n", lines)}, "")
}
