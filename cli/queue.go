package cli

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
func (sc scene) queue(req job.Request, j option.Job) job.Queue {
	ledger, _ := job.Lookup(sc.environ, "MPIEXEC_LEDGER")
	outer, _ := job.Lookup(sc.environ, "MPIEXEC_JOBID")
	q := job.Queue{Ledger: cmp.Or(j.Ledger, ledger), Inside: job.ID(outer), From: sc.here.Names[0]}
	if sc.site == nil {
		return q
	}
	if q.Ledger != "" && sc.site.Ledger != "" && filepath.Clean(q.Ledger) != filepath.Clean(sc.site.Ledger) {
		q.Noted = sc.site.Ledger
	}
	q.Ledger = cmp.Or(q.Ledger, sc.site.Ledger)
	q.Required, q.Strict = !sc.site.Optional, sc.site.Strict
	if keepers := sc.keepers(req, j); len(keepers) > 0 {
		q.Host, q.Spare = &keepers[0], keepers[1:]
	}
	return q
}

// mostKeepers is how many nodes keep the queue of a cluster that names none for that.
const mostKeepers = 3

// keepers are the nodes that keep the cluster's queue, in their order, in the words of the
// request if they are candidates; none if no candidate is a node of the cluster.
func (sc scene) keepers(req job.Request, j option.Job) (keepers []job.NodeDef) {
	index := sc.byName()
	if !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { _, known := index[strings.ToLower(n.Host)]; return known }) {
		return nil
	}
	var order []int // the first of the nodes have the lowest IDs
	for i := range min(mostKeepers, len(sc.site.Nodes)) {
		order = append(order, i)
	}
	if len(sc.site.Queues) > 0 {
		order = nil
	}
	for _, name := range sc.site.Queues {
		order = append(order, index[strings.ToLower(name)])
	}
	for _, keeper := range order {
		keepers = append(keepers, sc.keeper(keeper, req, j, index))
	}
	return keepers
}

func (sc scene) keeper(keeper int, req job.Request, j option.Job, index map[string]int) job.NodeDef {
	for _, n := range req.Nodes {
		if i, known := index[strings.ToLower(n.Host)]; known && i == keeper {
			return n
		}
	}
	host := sc.site.Nodes[keeper]
	host.Local = !j.NoAutofork && sc.here.isMe(cmp.Or(host.Address, host.Host))
	return host
}
