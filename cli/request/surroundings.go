package request

import (
	"cmp"
	"slices"
	"strings"

	"remshell/job"
)

// addSurroundings adds to a request the nodes of its cluster that its list does not name, where they matter
// (which-hosts.md 10, 11): the line of a contiguous job has them between others, and the width of a
// gate counts their CPUs. They have no turn. Then all nodes have the numbers of the cluster file, so
// that the line is that of the cluster whatever names the nodes.
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
	at := make([]int, len(w.Cluster.Nodes)) // index in req.Nodes, from 1
	beyond := 0
	for _, n := range w.Cluster.Nodes {
		beyond = max(beyond, n.ID+1)
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
		n.ID = beyond // not of the cluster: behind it
		beyond++
	}
	for k, n := range w.Cluster.Nodes {
		if at[k] == 0 {
			n.Local = w.Local.Matches(cmp.Or(n.Address, n.Host))
			req.Nodes = append(req.Nodes, n)
		}
	}
}
