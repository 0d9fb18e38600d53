package reserve

import (
	"remshell/job"
	"remshell/launch/info"
	"remshell/plan"
)

// universe is MPI_UNIVERSE_SIZE as -usize has it; 0: PMI does not tell it.
func universe(req job.Request, o Outset) int {
	if req.Universe == job.SystemSize {
		return o.Slots
	}
	return req.Universe
}

// slots is the universe (PMIX-71): the slots of all hosts that ranks of the job may be on, also those that they spawn, whoever
// runs there now. The nodes are those that were reached.
func slots(req job.Request, nodes []job.Node, p job.Plan) (sum int) {
	if req.Spawn.None {
		return p.Size
	}
	reached, listed := make(map[string]*job.Node, len(nodes)), req.Listed()
	for i := range nodes {
		reached[nodes[i].Name] = &nodes[i]
	}
	for _, note := range p.Rejected {
		if plan.Forbids(note.Code) {
			delete(listed, note.Node)
		}
	}
	guide := &info.Guide{Allow: req.Spawn}
	for _, np := range p.Nodes {
		guide.Seen = append(guide.Seen, info.Seen{Def: job.NodeDef{Name: np.Name}})
	}
	req.KeepNodes(func(def job.NodeDef) bool { return listed[def.Name] && reached[def.Name] != nil })
	guide.Candidates(&req)
	machines := make(map[string]bool)
	for _, def := range req.Nodes {
		n := reached[def.Name]
		switch {
		case n == nil: // of --spawn-hosts; it may have more, but nobody has looked
			sum += max(1, def.Slots)
		case n.Slots > 0 || !machines[n.Identity]: // slots of two names of a machine add up (HOST-8)
			size := n.Size()
			if n.MaxProcs != nil {
				size = min(size, *n.MaxProcs)
			}
			sum += size
		}
		if n != nil && n.Identity != "" {
			machines[n.Identity] = true
		}
	}
	return sum
}
