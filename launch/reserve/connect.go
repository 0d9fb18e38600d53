package reserve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/queue"
	"remshell/plan"
	"remshell/trace"
	"remshell/usererr"
)

// A connections is the helpers that a reservation is connected to.
type connections struct {
	hosts     []*host // in the order in which they came
	byNode    map[*node.Node]*host
	byName    map[string]*host  // the last one of a name
	errs      map[string]error  // why candidates were not reached, by name; nil: they were
	connected bool              // the candidates were dialled, and are kept
	retries   map[string]*retry // candidates that the head of the queue tries to reach again, by name
	results   []job.ConnectResult
}

func newConnections() connections {
	return connections{byNode: make(map[*node.Node]*host), byName: make(map[string]*host),
		errs: make(map[string]error), retries: make(map[string]*retry)}
}

// addHost takes in a host that was connected.
func (c *connections) addHost(n *host) {
	c.hosts = append(c.hosts, n)
	c.byNode[n.Node], c.byName[n.def.Name] = n, n
}

// keepHosts drops all other hosts.
func (c *connections) keepHosts(kept func(*host) bool) {
	c.hosts = slices.DeleteFunc(c.hosts, func(n *host) bool {
		dropped := !kept(n)
		if dropped && c.byName[n.def.Name] == n {
			delete(c.byName, n.def.Name)
		}
		return dropped
	})
}

// findHost finds the host of a definition; nil: it is not connected.
func (c *connections) findHost(def job.NodeDef) *host {
	if n := c.byName[def.Name]; n != nil && n.lost == nil {
		return n
	}
	return nil
}

// hasHost reports whether a node is connected.
func (c *connections) hasHost(def job.NodeDef) bool { return c.findHost(def) != nil }

// connectCandidates connects to all candidates at once, and to the queue hosts, and takes in
// what their helpers found. A candidate that cannot be reached fails the job, since the user named it,
// unless it may be skipped (SSH-6).
func (r *reservation) connectCandidates(ctx context.Context) error {
	var wanted []job.NodeDef
	worthy := plan.ProbeFilter(r.req)
	for _, def := range r.req.Nodes {
		if worthy(def) && !r.hasHost(def) { // else the plan will say why
			wanted = append(wanted, def)
		}
	}
	var keepers []job.NodeDef
	for _, host := range r.req.Queue.QueueHosts() {
		if !slices.ContainsFunc(slices.Concat(wanted, keepers), host.IsSameNode) && !r.hasHost(host) {
			keepers = append(keepers, host)
		}
	}
	r.connectAll(ctx, wanted, keepers)
	failed := r.connectFailures()
	if ctx.Err() != nil {
		return cancelReason(ctx, failed)
	}
	if len(failed) > 0 && (!r.req.SkipUnreachable || len(r.reachedHosts()) == 0) {
		return r.unreachedError(failed)
	}
	return r.queue.ChooseHost()
}

// otherHostsWait is how long a queue host may be silent when another node has answered, where
// there are others to keep the queue (survive.md SV-36).
const otherHostsWait = 3 * time.Second

var errNoReply = fmt.Errorf("no answer %v after others", otherHostsWait)

// connectAll connects to nodes, all at once, and begins to listen to those that answer. What
// came of each is noted by name. Of the queue hosts one that is dead does not keep us waiting
// if there are others.
func (r *reservation) connectAll(ctx context.Context, candidates, keepers []job.NodeDef) {
	defer r.pauseStartLimit()() // each host has a time of its own for each step
	spare, give := context.WithCancelCause(ctx)
	defer give(nil)
	if len(r.req.Queue.StandbyHosts) == 0 {
		spare = ctx
	}
	reached := sync.OnceFunc(func() { time.AfterFunc(otherHostsWait, func() { give(errNoReply) }) })
	defs := slices.Concat(candidates, keepers)
	results := make([]node.ConnectResult, len(defs))
	answered, shown := watchConnects(r.env, defs)
	note := func(i int, c node.ConnectResult) {
		results[i] = c
		if c.Err == nil {
			reached()
		}
		if r.env.OnConnect != nil {
			r.env.OnConnect(r.connectResult(defs[i], c))
		}
		answered(i)
	}
	connects := r.env.Trace.Begin(r.env.TraceRow, trace.Connect)
	var connecting sync.WaitGroup
	connecting.Go(func() { r.connectSet(ctx, candidates, 0, note) })
	connecting.Go(func() { r.connectSet(spare, keepers, len(candidates), note) })
	connecting.Wait()
	connects.End(ctx.Err())
	shown()
	for i, c := range results {
		r.results = append(r.results, r.connectResult(defs[i], c))
		if r.errs[defs[i].Name] = c.Err; c.Err == nil {
			r.addConnected(defs[i], c.Node)
		}
	}
}

// connectSet connects to a set of nodes by one call, if there are any, and notes what came of
// each as it comes. The first of the set is number first of all.
func (r *reservation) connectSet(ctx context.Context, defs []job.NodeDef, first int, note func(i int, c node.ConnectResult)) {
	if len(defs) == 0 {
		return
	}
	for c := range r.env.Connect(ctx, defs) {
		if c.Err != nil && context.Cause(ctx) == errNoReply {
			c.Err = errNoReply
		}
		note(first+c.Index, c)
	}
}

// addConnected takes in a node that was connected, and begins to listen to it.
func (r *reservation) addConnected(def job.NodeDef, n *node.Node) *host {
	h := &host{Node: n, def: def, probe: n.Probe}
	r.addHost(h)
	go r.env.Listener.Listen(n)
	return h
}

// reportSkipped tells which candidates the job goes without. A job that fails for want of
// nodes tells it as the reason instead.
func (r *reservation) reportSkipped() {
	for _, failure := range foldFailures(r.connectFailures()) {
		if errors.Is(failure, errNotThatMachine) {
			continue // it was said, with the name of the other one
		}
		text := failure.Error()
		if !node.IsViolation(failure) { // or it says so itself
			text += "; skipped"
		}
		r.env.Report(text)
	}
}

// connectResult tells how a node was reached, or why not.
func (r *reservation) connectResult(def job.NodeDef, c node.ConnectResult) job.ConnectResult {
	if c.Err != nil {
		return job.ConnectResult{Node: def.Name, Took: c.Took, Err: c.Err.Error()}
	}
	return job.ConnectResult{Node: def.Name, Took: c.Took, Host: c.Node.Probe.Hostname, BytesSent: c.Node.Sent(),
		InBatchAccounting: r.req.RM.Accounts(c.Node.Probe.Holder)}
}

// connectFailures are the candidates that cannot be used, in their order.
func (r *reservation) connectFailures() (failed []job.Failure) {
	listed := r.req.ListedNodes()
	for _, def := range r.req.Nodes {
		if err := r.errs[def.Name]; err != nil && listed[def.Name] {
			failed = append(failed, job.Failure{Node: def.Name, Origin: def.Origin, Err: err})
		}
	}
	return failed
}

// unreachedError is the end of an attempt that lacks hosts it cannot do without. Who waits
// anyway waits for them to come back, too.
func (r *reservation) unreachedError(failed []job.Failure) error {
	hosts := &HostsError{failed, len(r.hosts) > 0}
	if !r.queue.IsWaiting() {
		return hosts
	}
	return &plan.Error{Code: queue.CodeUnreachable, Text: strings.ReplaceAll(hosts.Error(), "\n", ", "), QueuePosition: r.queue.Position(),
		Remedy: "start on the others: --skip-unreachable"}
}

// reachedHosts are the hosts that were reached and may get ranks, as the queue host may not, also
// those that are lost by now.
func (r *reservation) reachedHosts() (hosts []*host) {
	named := r.req.ListedNodes()
	for _, n := range r.hosts {
		if named[n.def.Name] {
			hosts = append(hosts, n)
		}
	}
	return hosts
}

// cancelReason is the reason for which ctx ended: a signal, or the time for a start,
// and then the hosts that had not answered.
func cancelReason(ctx context.Context, failed []job.Failure) error {
	cause := context.Cause(ctx)
	var late *usererr.Error
	if !errors.As(cause, &late) || len(failed) == 0 {
		return cause
	}
	var hosts []string
	for _, f := range failed {
		hosts = append(hosts, f.Node)
	}
	return &usererr.Error{Text: late.Text + ": no answer yet from " + hostlist.Fold(hosts), Remedy: late.Remedy, Code: late.Code}
}

// connectTo connects to those of some hosts that are not connected, at once, and drops those that are lost. The dead cost no more
// than spareTime behind the first that answers (SV-36).
func (r *reservation) connectTo(ctx context.Context, hosts []job.NodeDef) {
	r.keepHosts(func(h *host) bool { return h.lost == nil })
	var wanted []job.NodeDef
	for _, host := range hosts {
		if !r.hasHost(host) {
			wanted = append(wanted, host)
		}
	}
	spare, give := context.WithCancelCause(ctx)
	defer give(nil)
	late := func() *time.Timer { return time.AfterFunc(otherHostsWait, func() { give(errNoReply) }) }
	if len(wanted) < len(hosts) {
		defer late().Stop()
	}
	r.connectSet(spare, wanted, 0, func(i int, c node.ConnectResult) {
		if r.errs[wanted[i].Name] = c.Err; c.Err == nil {
			late()
			delete(r.errs, wanted[i].Name)
			r.addConnected(wanted[i], c.Node)
		}
	})
}
