package reserve

import (
	"remshell/job"
	"remshell/launch/info"
	"remshell/plan"
)

// universeSize returns the MPI_UNIVERSE_SIZE that results from the option -usize. If the result is 0, PMI reports no
// universe size.
func universeSize(req job.Request, b Baseline) int {
	if req.Universe == job.SystemSize {
		return b.Slots
	}
	return req.Universe
}

// totalSlots returns the number of slots of all hosts on which the job may start or spawn ranks (rule PMIX-71). It
// includes slots that other jobs use. nodes contains the nodes that were reached.
func totalSlots(req job.Request, nodes []job.Node, p job.Plan) (sum int) {
	if req.SpawnHosts.None {
		return p.Size
	}
	reached, machines := make(map[string]*job.Node, len(nodes)), make(map[string]bool)
	for i := range nodes {
		reached[nodes[i].Name] = &nodes[i]
	}
	for _, def := range spawnHosts(req, reached, p) {
		n := reached[def.Name]
		if n == nil { // a host of --spawn-hosts that was not probed; it may have more slots
			sum += max(1, def.Slots)
			continue
		}
		size := n.SlotCount()
		if n.MaxProcs != nil {
			size = min(size, *n.MaxProcs)
		}
		if n.Slots > 0 || !machines[n.Identity] { // slots of two names of a machine add up (HOST-8)
			sum += size
		}
		machines[n.Identity] = n.Identity != ""
	}
	return sum
}

// spawnHosts returns the hosts on which ranks of the job may run. These are the candidates that were reached
// and that the request allows, and the hosts of --spawn-hosts.
func spawnHosts(req job.Request, reached map[string]*job.Node, p job.Plan) []job.NodeDef {
	listed := req.ListedNodes()
	for _, note := range p.Rejected {
		if plan.IsPermanentReason(note.Code) {
			delete(listed, note.Node)
		}
	}
	req.KeepNodes(func(def job.NodeDef) bool { return listed[def.Name] && reached[def.Name] != nil })
	policy := &info.HostPolicy{Allowed: req.SpawnHosts}
	for _, np := range p.Nodes {
		policy.Hosts = append(policy.Hosts, info.KnownHost{Def: job.NodeDef{Name: np.Name}})
	}
	policy.SetCandidates(&req)
	return req.Nodes
}
