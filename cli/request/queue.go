package request

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/job"
)

// queue says where the job learns of others. Nodes of the cluster file have the queue
// of their cluster, whatever list named them; others that of the first one.
func (w World) queue(req job.Request, j option.Job) job.Queue {
	ledger, _ := w.env("MPIEXEC_LEDGER")
	outer, _ := w.env("MPIEXEC_JOBID")
	q := job.Queue{Ledger: cmp.Or(j.Ledger, ledger), Inside: job.ID(outer), From: w.Local.Names[0]}
	if w.Cluster == nil {
		return q
	}
	if q.Ledger != "" && w.Cluster.Ledger != "" && filepath.Clean(q.Ledger) != filepath.Clean(w.Cluster.Ledger) {
		q.Noted = w.Cluster.Ledger
	}
	q.Ledger = cmp.Or(q.Ledger, w.Cluster.Ledger)
	if req.RM.ID() != "" { // the batch system has a queue of its own (RM-20)
		q.Strict = w.Cluster.Strict
		return q
	}
	q.Required, q.Strict = !w.Cluster.Optional, w.Cluster.Strict
	if keepers := w.keepers(req, j); len(keepers) > 0 {
		q.Host, q.Spare = &keepers[0], keepers[1:]
	}
	return q
}

// mostKeepers is how many nodes keep the queue of a cluster that names none for that.
const mostKeepers = 3

// keepers are the nodes that keep the cluster's queue, in their order, in the words of the
// request if they are candidates; none if no candidate is a node of the cluster.
func (w World) keepers(req job.Request, j option.Job) (keepers []job.NodeDef) {
	index := w.byName()
	if !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { _, known := index[strings.ToLower(n.Host)]; return known }) {
		return nil
	}
	var order []int // the first of the nodes have the lowest IDs
	for i := range min(mostKeepers, len(w.Cluster.Nodes)) {
		order = append(order, i)
	}
	if len(w.Cluster.Queues) > 0 {
		order = nil
	}
	for _, name := range w.Cluster.Queues {
		order = append(order, index[strings.ToLower(name)])
	}
	for _, keeper := range order {
		keepers = append(keepers, w.keeper(keeper, req, j, index))
	}
	return keepers
}

func (w World) keeper(keeper int, req job.Request, j option.Job, index map[string]int) job.NodeDef {
	for _, n := range req.Nodes {
		if i, known := index[strings.ToLower(n.Host)]; known && i == keeper {
			return n
		}
	}
	host := w.Cluster.Nodes[keeper]
	host.Local = !j.NoAutofork && w.Local.Is(cmp.Or(host.Address, host.Host))
	return host
}
