package job

// KeepNodes removes the candidate nodes for which isKept returns false, and their host entries. It replaces
// r.Nodes and r.HostEntries with new slices and leaves the old ones unchanged.
func (r *Request) KeepNodes(isKept func(NodeDef) bool) {
	at := make([]int, len(r.Nodes)) // old index -> new index, or -1 if removed
	var nodes []NodeDef
	for i, def := range r.Nodes {
		if at[i] = -1; isKept(def) {
			at[i] = len(nodes)
			nodes = append(nodes, def)
		}
	}
	r.Nodes = nodes
	if r.HostEntries != nil {
		entries := []int{}
		for _, i := range r.HostEntries {
			if at[i] >= 0 {
				entries = append(entries, at[i])
			}
		}
		r.HostEntries = entries
	}
}

// AddNode appends def to the candidate nodes and returns its index. It gives def an ID that is larger than all
// other IDs.
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
