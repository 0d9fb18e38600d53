package reserve

import (
	"remshell/job"
	"remshell/launch/info"
	"remshell/plan"
)

// universeSize is MPI_UNIVERSE_SIZE as -usize has it; 0: PMI does not tell it.
func universeSize(req job.Request, o Baseline) int {
	if req.Universe == job.SystemSize {
		return o.Slots
	}
	return req.Universe
}

// totalSlots is the universe (PMIX-71): the slots of all hosts that ranks of the job may be on, also those that they spawn, whoever
// runs there now. The nodes are those that were reached.
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
		if n == nil { // of --spawn-hosts; it may have more, but nobody has looked
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

// spawnHosts are those that ranks of the job may be on: candidates that were reached and are not closed to it, and those of
// --spawn-hosts.
func spawnHosts(req job.Request, reached map[string]*job.Node, p job.Plan) []job.NodeDef {
	listed := req.ListedNodes()
	for _, note := range p.Rejected {
		if plan.IsPermanentReason(note.Code) {
			delete(listed, note.Node)
		}
	}
	req.KeepNodes(func(def job.NodeDef) bool { return listed[def.Name] && reached[def.Name] != nil })
	guide := &info.HostPolicy{Allowed: req.SpawnHosts}
	for _, np := range p.Nodes {
		guide.Hosts = append(guide.Hosts, info.KnownHost{Def: job.NodeDef{Name: np.Name}})
	}
	guide.SetCandidates(&req)
	return req.Nodes
}
