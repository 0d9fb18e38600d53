package restart

import (
	"cmp"
	"slices"

	"remshell/job"
	"remshell/pin"
)

// StandbyRequest returns a request for the standby nodes of a job, which the job holds for restarts (rule SV-7).
// Each standby node must have as many free CPUs as the plan uses on its largest node. The request accepts fewer
// nodes than the user wanted. StandbyRequest returns false if the job wants no standby nodes, or if its fixed
// placements cannot use any.
func StandbyRequest(req job.Request, p job.Plan) (job.Request, bool) {
	if req.Restart.StandbyNodes == 0 || req.FixedPlacements != nil || len(p.Nodes) == 0 {
		return req, false
	}
	largest := slices.MaxFunc(p.Nodes, func(a, b job.NodePlan) int {
		return cmp.Or(cmp.Compare(a.CPUs(), b.CPUs()), cmp.Compare(len(a.Ranks), len(b.Ranks)))
	})
	app := req.Apps[largest.Ranks[0].App]
	each := len(largest.Ranks)
	if threads := max(1, app.CPUsPerRank); app.GPUs <= 0 && !app.AllCPUs && largest.CPUs() > 0 {
		each = (largest.CPUs() + threads - 1) / threads
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
			n.ExcludedWhy = "ranks of the job run on this host"
		}
	}
	req.Wait, req.RoundRobin, req.MinNodes, req.Layout, req.CPUMap, req.NoSharedHosts = false, false, 0, pin.Layout{}, nil, false
	req.NodeSelection = job.NodeSelection{Class: req.Class, Reserve: req.Reserve, Memory: req.Memory, HugePages: req.HugePages}
	return req, true
}
