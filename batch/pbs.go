package batch

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// pbs is PBS: OpenPBS, PBS Professional and Torque. It writes a file with a line for each slot
// (rm-integration.md 2.1).
//
// No program of PBS passes its input to a program on another host. So mpiexec reaches hosts by ssh, and
// the shell there makes its session part of the job (from OpenPBS's manuals; never tried live):
//
//	mpiexec --- sshd --- /bin/sh - pbs_attach -j JOB -p PID    exec: reaper --- helper --- ranks, all of that session
var pbs = System{
	Name: "pbs", Title: "PBS", Within: "call mpiexec in a script of qsub", Untried: true,
	Products: []string{"Torque", "OpenPBS", "PBSPro"},

	Variable: "PBS_JOBID",
	Inside:   func(w Inputs) bool { return w.set("PBS_JOBID") },
	Job:      func(w Inputs) string { return w.value("PBS_JOBID") },
	Copies: func(w Inputs) (times, by string) {
		if w.count("PBS_TASKNUM") > 1 {
			return "more than once", "pbsdsh"
		}
		return "", ""
	},
	Hosts: pbsHosts,

	Attach:  &Attach{Program: "pbs_attach", JobFlag: "-j", ProcessFlag: "-p", Variable: "PBS_JOBID"},
	NoInput: []string{"pbsdsh", "pbs_tmrsh"},
	OpenMPI: "tm",

	KillDelay: 10 * time.Second,
	Holder:    Holder{Processes: []string{"pbs_mom"}, Variables: []string{"PBS_JOBID"}},
	Sessions:  true,
}

// pbsHosts returns the hosts of PBS_NODEFILE. Under Torque, which sets PBS_NUM_PPN or PBS_NP, each line
// is a CPU. Under other systems a line is a process of a chunk, which may have several CPUs.
func pbsHosts(w Inputs, _ Options) (Allocation, error) {
	a := Allocation{Source: "PBS_NODEFILE", Width: 1}
	l, err := w.file(a.Source, FormNodes)
	if err != nil {
		return a, err
	}
	a.Hosts = l.all()
	if n := w.count("NCPUS"); n > 0 && n <= maxCount && !w.set("PBS_NUM_PPN") && !w.set("PBS_NP") {
		a.Width, a.WidthFrom = max(1, n/a.Hosts[0].Tasks), "NCPUS"
	}
	if w.set("PBS_GPUFILE") {
		err = pbsGPUs(w, a.Hosts)
	}
	return a, err
}

// pbsGPUs adds the GPUs from Torque's list, with lines "host-gpu0", to the hosts.
func pbsGPUs(w Inputs, hosts []Host) error {
	const source = "PBS_GPUFILE"
	at := make(map[string]int)
	for i, h := range hosts {
		at[key(h.Name)] = i
	}
	var gpus pieces
	missing, wrong := w.lines(source, w.value(source), func(_ int, words []string) error {
		cut := strings.LastIndex(words[0], "-gpu")
		if cut < 0 || len(words) > 1 {
			return fmt.Errorf("%s is not HOST-gpuN", quoted(strings.Join(words, " ")))
		}
		name := words[0][:cut]
		gpu := words[0][cut+len("-gpu"):]
		if _, ok := number(gpu); !ok {
			return fmt.Errorf("%s is not HOST-gpuN", quoted(words[0]))
		}
		i, found := at[key(name)]
		if !found {
			i = slices.IndexFunc(hosts, func(h Host) bool { return sameShort(h.Name, name) })
		}
		if i < 0 {
			return fmt.Errorf("%s is not a host of PBS_NODEFILE", quoted(name))
		}
		at[key(name)] = i
		gpus.add(i, gpu)
		return nil
	})
	for i := range hosts {
		hosts[i].GPUs = gpus.behind(hosts[i].GPUs, i)
	}
	return linesError(missing, wrong)
}

// sameShort reports whether two host names are equal up to the first dot and only one of them has a
// domain.
func sameShort(a, b string) bool {
	short, _, domain := strings.Cut(a, ".")
	other, _, others := strings.Cut(b, ".")
	return domain != others && strings.EqualFold(short, other)
}
