package request

import (
	"fmt"
	"net/netip"
	"slices"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/hostlist"
	"remshell/job"
	"remshell/usererr"
)

// CheckOutside returns an error for candidate hosts that do not belong to the batch job, although ssh might reach
// them. It allows this machine. It allows all hosts with --allow-outside or -rmk none, and if mpiexec runs inside a
// rank. If the hosts of the batch job cannot be read, it returns nil.
func (w Inputs) CheckOutside(req job.Request, j option.JobOptions) error {
	outer, _ := w.lookupEnv("MPIEXEC_JOBID")
	if j.AllowOutside || j.RMK == "none" || j.RMK == "user" || outer != "" {
		return nil
	}
	system, number := batch.Inside(w.allocInputs())
	if system == nil || system.AnyHost {
		return nil
	}
	given := w.Allocation
	if given == nil || given.System != system.Name {
		whole, err := batch.Read(system.Name, w.allocInputs(), batch.Options{Job: true})
		if err != nil {
			return nil
		}
		given = &whole
	}
	names := nodesOutsideJob(slices.Concat(req.Nodes, req.SpawnHosts.List), Starter{allocation: given})
	if names == nil {
		return nil
	}
	owner := batch.JobName(system.Name, number)
	text := fmt.Sprintf("%s is not a host of %s", names[0], owner)
	if len(names) > 1 {
		text = fmt.Sprintf("%s are not hosts of %s", hostlist.FoldBrief(names), owner)
	}
	return &usererr.Error{Text: text, Remedy: "give only hosts of the batch job, or allow other hosts with --allow-outside"}
}

// nodesOutsideJob returns the nodes that the batch job does not contain under any of their names. It ignores
// nodes that are known only by an address.
func nodesOutsideJob(nodes []job.NodeDef, s Starter) (names []string) {
	for _, n := range nodes {
		known := func(name string) bool {
			_, held := s.FindHost(name)
			return held
		}
		if _, err := netip.ParseAddr(n.Host); err == nil || n.Local || known(n.Name) || known(n.Host) || slices.ContainsFunc(n.Aliases, known) {
			continue
		}
		if !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}
