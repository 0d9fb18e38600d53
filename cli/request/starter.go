package request

import (
	"fmt"
	"slices"
	"strings"

	"remshell/alloc"
	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
)

// A Starter is a batch system that starts our helpers on the nodes of its job (RM-30).
type Starter struct {
	System string // slurm; empty: there is none, and hosts are reached by ssh or as the user said
	Job    string // its number
	Asked  bool   // by name: then there is no other way
	given  *alloc.Allocation
}

// Starter is that of the batch system in whose job we are, if it has one that we know and the user
// wants no other. A launch from inside of a rank does not look (RM-2).
func (w World) Starter(j option.Job) (Starter, error) {
	asked := j.Launcher == "slurm" || j.Launcher == "srun"
	outer, _ := w.env("MPIEXEC_JOBID")
	if !asked && (j.Launcher != "" && j.Launcher != "auto" || len(j.LauncherExec) > 0 || j.RMK == "none" || j.RMK == "user" || outer != "") {
		return Starter{}, nil
	}
	system, number := alloc.Inside(w.batch())
	if system != "slurm" {
		if asked {
			return Starter{}, &fault.Error{Text: fmt.Sprintf("-launcher %s: this is no job of Slurm's", j.Launcher), Remedy: "call mpiexec in a script of sbatch, or by salloc; or use -launcher ssh"}
		}
		return Starter{}, nil
	}
	given := w.Grant
	if given == nil || given.System != system { // the user names hosts
		whole, err := alloc.Of(system, w.batch(), alloc.Wish{})
		if err != nil {
			return Starter{}, err
		}
		given = &whole
	}
	return Starter{System: system, Job: number, Asked: asked, given: given}, nil
}

// RM is what is told of the batch system.
func (s Starter) RM() *job.RM { return told(s.given) }

// Part finds a host in the job, by its name or, where only one of the two has a domain, by what stands
// before that, and tells which group of a heterogeneous job it is in; -1: there are no groups.
func (s Starter) Part(host string) (group int, held bool) {
	i := slices.IndexFunc(s.given.Hosts, func(have alloc.Host) bool {
		short, _, long := strings.Cut(have.Name, ".")
		asked, _, qualified := strings.Cut(host, ".")
		return strings.EqualFold(have.Name, host) || long != qualified && strings.EqualFold(short, asked)
	})
	switch {
	case i < 0:
		return -1, false
	case !slices.ContainsFunc(s.given.Hosts, func(h alloc.Host) bool { return h.Group > 0 }):
		return -1, true
	}
	return s.given.Hosts[i].Group, true
}
