package restart

import (
	"cmp"
	"slices"

	"remshell/job"
	"remshell/pin"
)

// StandbyRequest is the request for the nodes that a job claims beside those of its plan (SV-7), which are not
// there for it: on each as many CPUs as the largest part of a node has, on as many of them as are
// free. false: it wants none, or could not use any, since it is written down where each rank goes.
func StandbyRequest(req job.Request, p job.Plan) (job.Request, bool) {
	if req.Restart.StandbyNodes == 0 || req.FixedPlacements != nil || len(p.Nodes) == 0 {
		return req, false
	}
	most := slices.MaxFunc(p.Nodes, func(a, b job.NodePlan) int {
		return cmp.Or(cmp.Compare(a.CPUs(), b.CPUs()), cmp.Compare(len(a.Ranks), len(b.Ranks)))
	})
	app := req.Apps[most.Ranks[0].App]
	each := len(most.Ranks)
	if threads := max(1, app.CPUsPerRank); app.GPUs <= 0 && !app.AllCPUs && most.CPUs() > 0 {
		each = (most.CPUs() + threads - 1) / threads
	}
	app.N, app.Soft, app.PerNode, app.ExactPerNode, app.NUMA = 0, nil, 0, each, pin.Confinement{}
	for k := req.Restart.StandbyNodes; k > 0; k-- {
		app.Soft = append(app.Soft, k*each)
	}
	req.Apps, req.Nodes = []job.App{app}, slices.Clone(req.Nodes)
	used := make(map[string]bool, len(p.Nodes))
	for _, np := range p.Nodes {
		used[np.Name] = true
	}
	for i := range req.Nodes {
		if n := &req.Nodes[i]; used[n.Name] {
			n.ExcludedWhy = "it has ranks of the job"
		}
	}
	req.Wait, req.RoundRobin, req.MinNodes, req.Layout, req.CPUMap, req.NoSharedHosts = false, false, 0, pin.Layout{}, nil, false
	req.NodeSelection = job.NodeSelection{Class: req.Class, Reserve: req.Reserve, Memory: req.Memory, HugePages: req.HugePages}
	return req, true
}
