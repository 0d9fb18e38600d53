package request

import (
	"cmp"
	"errors"
	"slices"

	"remshell/cli/option"
	"remshell/hostlist"
	"remshell/job"
)

// SpawnHostFinder returns a function that parses the hosts that a rank names in a spawn request, in the syntax of
// -host. The hosts need not be in the cluster file. The function sets Local for this machine, whatever name or user
// the rank has given for it.
func (w Inputs) SpawnHostFinder(j option.JobOptions) func(list string) ([]job.NodeDef, error) {
	return func(list string) ([]job.NodeDef, error) {
		entries, err := hostlist.Parse("info key \"host\"", list)
		if err == nil && slices.ContainsFunc(entries, func(e hostlist.Entry) bool { return e.Exclude }) {
			err = errors.New("info key \"host\": MPI_Comm_spawn cannot exclude hosts")
		}
		if err == nil {
			entries, err = hostlist.Join(entries)
		}
		if err != nil {
			return nil, err
		}
		defs, err := w.candidatesOf(entries, j)
		for i := range defs {
			defs[i].Local = w.Local.Matches(cmp.Or(defs[i].Address, defs[i].Host))
		}
		return defs, err
	}
}

// spawnHostsRequest returns the hosts on which ranks may spawn processes.
func (w Inputs) spawnHostsRequest(line option.Line) (allow job.SpawnHosts, err error) {
	h := line.Job.SpawnHosts
	g, given := line.Origin("spawn-hosts")
	if !given {
		return allow, nil
	}
	allow = job.SpawnHosts{None: h.Word == "none", Job: h.Word == "job", Any: h.Any, Option: g.String()}
	entries, err := hostlist.Join(h.Hosts)
	if err == nil && len(entries) > 0 {
		allow.List, err = w.candidatesOf(entries, line.Job)
	}
	return allow, err
}
