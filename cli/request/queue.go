package request

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/job"
)

// queueRequest says where the job learns of others. Nodes of the cluster file have the queue
// of their cluster, whatever list named them; others that of the first one.
func (w Inputs) queueRequest(req job.Request, j option.JobOptions) job.Queue {
	ledger, _ := w.lookupEnv("MPIEXEC_LEDGER")
	outer, _ := w.lookupEnv("MPIEXEC_JOBID")
	q := job.Queue{LedgerDir: cmp.Or(j.Ledger, ledger), ParentJob: job.ID(outer), LauncherHost: w.Local.Names[0]}
	if w.Cluster == nil {
		return q
	}
	if q.LedgerDir != "" && w.Cluster.Ledger != "" && filepath.Clean(q.LedgerDir) != filepath.Clean(w.Cluster.Ledger) {
		q.ClusterLedgerDir = w.Cluster.Ledger
	}
	q.LedgerDir = cmp.Or(q.LedgerDir, w.Cluster.Ledger)
	if req.RM.ID() != "" { // the batch system has a queue of its own (RM-20)
		q.Strict = w.Cluster.QueueRequired
		return q
	}
	q.Required, q.Strict = !w.Cluster.QueueOptional, w.Cluster.QueueRequired
	if keepers := w.queueKeepers(req, j); len(keepers) > 0 {
		q.Host, q.StandbyHosts = &keepers[0], keepers[1:]
	}
	return q
}

// maxQueueKeepers is how many nodes keep the queue of a cluster that names none for that.
const maxQueueKeepers = 3

// queueKeepers are the nodes that keep the cluster's queue, in their order, in the words of the
// request if they are candidates; none if no candidate is a node of the cluster.
func (w Inputs) queueKeepers(req job.Request, j option.JobOptions) (keepers []job.NodeDef) {
	index := w.nodesByName()
	if !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { _, known := index[strings.ToLower(n.Host)]; return known }) {
		return nil
	}
	var order []int // the first of the nodes have the lowest IDs
	for i := range min(maxQueueKeepers, len(w.Cluster.Nodes)) {
		order = append(order, i)
	}
	if len(w.Cluster.QueueHosts) > 0 {
		order = nil
	}
	for _, name := range w.Cluster.QueueHosts {
		order = append(order, index[strings.ToLower(name)])
	}
	for _, keeper := range order {
		keepers = append(keepers, w.queueKeeper(keeper, req, j, index))
	}
	return keepers
}

func (w Inputs) queueKeeper(keeper int, req job.Request, j option.JobOptions, index map[string]int) job.NodeDef {
	for _, n := range req.Nodes {
		if i, known := index[strings.ToLower(n.Host)]; known && i == keeper {
			return n
		}
	}
	host := w.Cluster.Nodes[keeper]
	host.Local = !j.NoAutofork && w.Local.Matches(cmp.Or(host.Address, host.Host))
	return host
}
