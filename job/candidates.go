package job

// KeepNodes drops all other candidates, and their turns. The request's lists are new ones then.
func (r *Request) KeepNodes(keep func(NodeDef) bool) {
	at := make([]int, len(r.Nodes)) // of those that stay
	var nodes []NodeDef
	for i, def := range r.Nodes {
		if at[i] = -1; keep(def) {
			at[i] = len(nodes)
			nodes = append(nodes, def)
		}
	}
	r.Nodes = nodes
	if r.HostEntries != nil {
		turns := []int{}
		for _, i := range r.HostEntries {
			if at[i] >= 0 {
				turns = append(turns, at[i])
			}
		}
		r.HostEntries = turns
	}
}

// AddNode adds a candidate, with a number that none has: those of a cluster file have gaps. It returns its index.
func (r *Request) AddNode(def NodeDef) int {
	i := len(r.Nodes)
	def.ID = 0
	for _, n := range r.Nodes {
		def.ID = max(def.ID, n.ID+1)
	}
	r.Nodes = append(r.Nodes, def)
	if r.HostEntries != nil {
		r.HostEntries = append(r.HostEntries, i)
	}
	return i
}
