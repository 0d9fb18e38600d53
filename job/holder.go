package job

import (
	"slices"
	"strings"
)

// holders are the processes by which batch systems hold what runs on a host: all below one is counted and ended as the
// job's (RM-45). A name may go on: sge_shepherd-7.
var holders = map[string][]string{
	"slurm": {"slurmstepd"},
	"sge":   {"sge_shepherd"},
	"lsf":   {"res"},
	"pbs":   {"pbs_mom"},
	"flux":  {"flux-shell", "flux-broker"},
}

// IsHolder reports whether a process of this name is a batch system's that holds what is below it.
func IsHolder(name string) bool {
	for _, names := range holders {
		if slices.ContainsFunc(names, func(known string) bool { return is(name, known) }) {
			return true
		}
	}
	return false
}

func is(name, known string) bool {
	rest, ok := strings.CutPrefix(name, known)
	return ok && (rest == "" || rest[0] == '-')
}

// Accounts reports whether a batch system holds a helper, below what process of a batch system's that may be; nil:
// nobody knows.
func (r *RM) Accounts(holder string) *bool {
	if r == nil || holders[r.Name] == nil {
		return nil
	}
	held := slices.ContainsFunc(holders[r.Name], func(known string) bool { return is(holder, known) })
	return &held
}

// Holder is the process that a batch system has above what it holds, for people.
func (r *RM) Holder() string { return strings.Join(holders[r.Name], " or ") }
