package launch

import (
	"fmt"
	"slices"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/usererr"
)

// This file is about standby nodes: the job has claimed them for another attempt (survive.md SV-7).

// standbyLost takes the news that a connection has ended, and reports whether it was that of a standby node.
func (f *runningJob) standbyLost(e node.Disconnected) bool {
	i := slices.IndexFunc(f.standby, func(s reserve.KeptNode) bool { return s.Node == e.From })
	if i < 0 {
		return false
	}
	f.standby = slices.Delete(slices.Clone(f.standby), i, i+1)
	f.env.Report(fmt.Sprintf("spare %s is lost (%s)", e.From.Name(), usererr.Reason(e.Err)))
	return true
}

// requestWithoutStandby is the job's request for its own spawns, which shall not use the standby nodes.
func (f *runningJob) requestWithoutStandby() job.Request {
	return reserve.WithoutNodes(f.req, func(def job.NodeDef) bool {
		return slices.ContainsFunc(f.standby, func(s reserve.KeptNode) bool { return s.Name() == def.Name })
	})
}
