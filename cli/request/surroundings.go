package request

import (
	"cmp"
	"slices"
	"strings"

	"remshell/job"
)

// addSurroundings adds the nodes of the cluster that the host list does not name, if the choice of hosts depends on
// them (which-hosts.md 10, 11). This is so if the job needs nodes with consecutive IDs, or if mpiexec must choose the
// width of a region's gate itself. Added nodes have no host entry. All nodes of the request that are in the cluster
// file then have the IDs that the file gives them.
func (w Inputs) addSurroundings(req *job.Request) {
	if w.Cluster == nil || req.FixedPlacements != nil || req.Contiguous == "" && !slices.ContainsFunc(req.Regions, func(r job.Region) bool {
		return r.Gate.Width != nil && *r.Gate.Width == job.AutoWidth
	}) {
		return
	}
	if req.HostEntries == nil {
		for i := range req.Nodes {
			req.HostEntries = append(req.HostEntries, i)
		}
	}
	cluster := w.nodesByName()
	at := make([]int, len(w.Cluster.Nodes)) // index in req.Nodes plus 1; 0: not there
	nextID := 0
	for _, n := range w.Cluster.Nodes {
		nextID = max(nextID, n.ID+1)
	}
	req.Nodes = slices.Clone(req.Nodes)
	for i := range req.Nodes {
		n := &req.Nodes[i]
		k, known := cluster[strings.ToLower(n.Name)]
		if !known {
			k, known = cluster[strings.ToLower(n.Host)]
		}
		if known && at[k] == 0 {
			n.ID, at[k] = w.Cluster.Nodes[k].ID, i+1
			continue
		}
		n.ID = nextID // not in the cluster file: placed behind its nodes
		nextID++
	}
	for k, n := range w.Cluster.Nodes {
		if at[k] == 0 {
			n.Local = w.Local.Matches(cmp.Or(n.Address, n.Host))
			req.Nodes = append(req.Nodes, n)
		}
	}
}
