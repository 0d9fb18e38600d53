package request

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/job"
)

// queueRequest returns the places where the job looks for other jobs' claims (records of CPUs in use) and tickets
// (records of places in the queue). Outside a batch job, a job with a candidate host in the cluster file uses the
// cluster's queue.
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
	if hosts := w.queueHosts(req, j); len(hosts) > 0 {
		q.Host, q.StandbyHosts = &hosts[0], hosts[1:]
	}
	return q
}

// maxQueueHosts is the maximum number of queue hosts if the cluster file names none. The nodes with the smallest IDs
// are then the queue hosts.
const maxQueueHosts = 3

// queueHosts returns the cluster's queue hosts, in order. A queue host that is also a candidate host is returned as
// the request describes it. If no candidate host is a node of the cluster, queueHosts returns nil.
func (w Inputs) queueHosts(req job.Request, j option.JobOptions) (hosts []job.NodeDef) {
	index := w.nodesByName()
	if !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { _, known := index[strings.ToLower(n.Host)]; return known }) {
		return nil
	}
	var order []int // nodes are sorted by ID
	for i := range min(maxQueueHosts, len(w.Cluster.Nodes)) {
		order = append(order, i)
	}
	if len(w.Cluster.QueueHosts) > 0 {
		order = nil
	}
	for _, name := range w.Cluster.QueueHosts {
		order = append(order, index[strings.ToLower(name)])
	}
	for _, i := range order {
		hosts = append(hosts, w.queueHost(i, req, j, index))
	}
	return hosts
}

func (w Inputs) queueHost(clusterNode int, req job.Request, j option.JobOptions, index map[string]int) job.NodeDef {
	for _, n := range req.Nodes {
		if i, known := index[strings.ToLower(n.Host)]; known && i == clusterNode {
			return n
		}
	}
	host := w.Cluster.Nodes[clusterNode]
	host.Local = !j.NoAutofork && w.Local.Matches(cmp.Or(host.Address, host.Host))
	return host
}
