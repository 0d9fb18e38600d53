package cli

import (
	"cmp"
	"strings"

	"remshell/job"
)

// queue says where the job learns of others. Nodes of the cluster file have the queue
// of their cluster, whatever list named them; others that of the first one.
func (sc scene) queue(req job.Request, j JobOptions) job.Queue {
	ledger, _ := lookup(sc.environ, "MPIEXEC_LEDGER")
	outer, _ := lookup(sc.environ, "MPIEXEC_JOBID")
	q := job.Queue{Ledger: cmp.Or(j.Ledger, ledger), Inside: job.ID(outer), From: sc.here.Names[0]}
	if sc.site == nil {
		return q
	}
	q.Ledger = cmp.Or(q.Ledger, sc.site.Ledger)
	q.Required, q.Strict = !sc.site.Optional, sc.site.Strict
	q.Host = sc.queueHost(req, j)
	return q
}

// queueHost is the node that keeps the cluster's queue, in the words of the request if it
// is a candidate; nil if no candidate is a node of the cluster.
func (sc scene) queueHost(req job.Request, j JobOptions) *job.NodeDef {
	index := sc.byName()
	keeper := index[strings.ToLower(sc.site.QueueHost)] // else the first: the lowest ID
	inside := false
	for _, n := range req.Nodes {
		i, known := index[strings.ToLower(n.Host)]
		if known && i == keeper {
			return &n
		}
		inside = inside || known
	}
	if !inside {
		return nil
	}
	host := sc.site.Nodes[keeper]
	host.Local = !j.NoAutofork && sc.here.isMe(cmp.Or(host.Address, host.Host))
	return &host
}
