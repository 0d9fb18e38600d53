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

// standbyLost removes a standby node whose connection has ended. It returns false if e is not about a standby
// node.
func (j *Job) standbyLost(e node.Disconnected) bool {
	i := slices.IndexFunc(j.Standby, func(s reserve.KeptNode) bool { return s.Node == e.From })
	if i < 0 {
		return false
	}
	j.Standby = slices.Delete(slices.Clone(j.Standby), i, i+1)
	j.Env.Report(fmt.Sprintf("lost contact with standby node %s (%s)", e.From.Name(), usererr.Reason(e.Err)))
	return true
}

// RequestWithoutStandby returns the job's request without the standby nodes. It is used for spawns of the
// job, which must not use standby nodes.
func (j *Job) RequestWithoutStandby() job.Request {
	return reserve.WithoutNodes(j.Request, func(def job.NodeDef) bool {
		return slices.ContainsFunc(j.Standby, func(s reserve.KeptNode) bool { return s.Name() == def.Name })
	})
}
