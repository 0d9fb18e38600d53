package launch

import (
	"fmt"
	"slices"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
)

// This file is about standby nodes: the job has claimed them for another attempt (survive.md SV-7).

// spareLost takes the news that a connection has ended, and reports whether it was that of a standby node.
func (f *fleet) spareLost(e node.Disconnected) bool {
	i := slices.IndexFunc(f.spares, func(s reserve.Kept) bool { return s.Node == e.From })
	if i < 0 {
		return false
	}
	f.spares = slices.Delete(slices.Clone(f.spares), i, i+1)
	f.env.Say(fmt.Sprintf("spare %s is lost (%s)", e.From.Name(), fault.Reason(e.Err)))
	return true
}

// withoutSpares is the job's request for its own spawns, which shall not use the standby nodes.
func (f *fleet) withoutSpares() job.Request {
	return reserve.Without(f.req, func(def job.NodeDef) bool {
		return slices.ContainsFunc(f.spares, func(s reserve.Kept) bool { return s.Name() == def.Name })
	})
}
