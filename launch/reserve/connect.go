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

// A connections value holds the hosts to which a reservation is connected.
type connections struct {
	hosts     []*host // in the order in which they were connected
	byNode    map[*node.Node]*host
	byName    map[string]*host  // the host that was added last with this name
	errs      map[string]error  // why a host was not reached, by name; nil if it was
	connected bool              // the candidates were dialled, and their connections are open
	retries   map[string]*retry // candidates to reach again, by name; used at the head of the queue
	results   []job.ConnectResult
}

func newConnections() connections {
	return connections{byNode: make(map[*node.Node]*host), byName: make(map[string]*host),
		errs: make(map[string]error), retries: make(map[string]*retry)}
}

func (c *connections) addHost(n *host) {
	c.hosts = append(c.hosts, n)
	c.byNode[n.Node], c.byName[n.def.Name] = n, n
}

// keepHosts removes the hosts for which isKept returns false.
func (c *connections) keepHosts(isKept func(*host) bool) {
	c.hosts = slices.DeleteFunc(c.hosts, func(n *host) bool {
		dropped := !isKept(n)
		if dropped && c.byName[n.def.Name] == n {
			delete(c.byName, n.def.Name)
		}
		return dropped
	})
}

// findHost returns the connected host with this definition, or nil.
func (c *connections) findHost(def job.NodeDef) *host {
	if n := c.byName[def.Name]; n != nil && n.lost == nil {
		return n
	}
	return nil
}

// hasHost reports whether the host with this definition is connected.
func (c *connections) hasHost(def job.NodeDef) bool { return c.findHost(def) != nil }

// connectCandidates connects to all candidates and queue hosts at the same time. If a candidate cannot be
// reached, it returns an error. With --skip-unreachable it continues without this candidate (rule SSH-6).
func (r *reservation) connectCandidates(ctx context.Context) error {
	var wanted []job.NodeDef
	canBeUsed := plan.ProbeFilter(r.req)
	for _, def := range r.req.Nodes {
		if canBeUsed(def) && !r.hasHost(def) { // else the plan will say why
			wanted = append(wanted, def)
		}
	}
	var queueHosts []job.NodeDef
	for _, host := range r.req.Queue.QueueHosts() {
		if !slices.ContainsFunc(slices.Concat(wanted, queueHosts), host.IsSameNode) && !r.hasHost(host) {
			queueHosts = append(queueHosts, host)
		}
	}
	r.connectAll(ctx, wanted, queueHosts)
	failed := r.connectFailures()
	if ctx.Err() != nil {
		return cancelReason(ctx, failed)
	}
	if len(failed) > 0 && (!r.req.SkipUnreachable || len(r.reachedHosts()) == 0) {
		return r.unreachedError(failed)
	}
	return r.queue.ChooseHost()
}

// otherHostsWait is how long to wait for further queue hosts after the first host has connected (survive.md
// SV-36). It matters only if several queue hosts are configured.
const otherHostsWait = 3 * time.Second

var errNoReply = fmt.Errorf("the host did not answer within %v after another host had answered", otherHostsWait)

// connectAll connects to all nodes at the same time and records the result for each node. It starts to read
// from the nodes that it reaches. If there are several queue hosts, it waits at most otherHostsWait for those
// that do not reply.
func (r *reservation) connectAll(ctx context.Context, candidates, queueHosts []job.NodeDef) {
	defer r.pauseStartLimit()() // each host has its own time limit for each step
	queueCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if len(r.req.Queue.StandbyHosts) == 0 {
		queueCtx = ctx
	}
	reached := sync.OnceFunc(func() { time.AfterFunc(otherHostsWait, func() { cancel(errNoReply) }) })
	defs := slices.Concat(candidates, queueHosts)
	results := make([]node.ConnectResult, len(defs))
	answered, stopProgress := watchConnects(r.env, defs)
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
	connecting.Go(func() { r.connectSet(queueCtx, queueHosts, len(candidates), note) })
	connecting.Wait()
	connects.End(ctx.Err())
	stopProgress()
	for i, c := range results {
		r.results = append(r.results, r.connectResult(defs[i], c))
		if r.errs[defs[i].Name] = c.Err; c.Err == nil {
			r.addConnected(defs[i], c.Node)
		}
	}
}

// connectSet connects to a set of nodes with one call of the dialer. It calls note as soon as the result for a node is
// known. The argument i of note is first plus the node's index in defs.
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

// addConnected adds a connected node and starts to read its connection.
func (r *reservation) addConnected(def job.NodeDef, n *node.Node) *host {
	h := &host{Node: n, def: def, probe: n.Probe}
	r.addHost(h)
	go r.env.Listener.Listen(n)
	return h
}

// reportSkipped reports candidates that cannot be reached, if the job starts without them. If the job fails
// because nodes are missing, the error names these candidates instead.
func (r *reservation) reportSkipped() {
	for _, failure := range foldFailures(r.connectFailures()) {
		if errors.Is(failure, errFalseMachineID) {
			continue // mergeIfSame has reported it, with the other host's name
		}
		text := failure.Error()
		if !node.IsViolation(failure) { // its text says so already
			text += "; skipped"
		}
		r.env.Report(text)
	}
}

// connectResult converts the result of connecting to a host to the form that is used in the job's result.
func (r *reservation) connectResult(def job.NodeDef, c node.ConnectResult) job.ConnectResult {
	if c.Err != nil {
		return job.ConnectResult{Node: def.Name, Took: c.Took, Err: c.Err.Error()}
	}
	return job.ConnectResult{Node: def.Name, Took: c.Took, Host: c.Node.Probe.Hostname, BytesSent: c.Node.Sent(),
		InBatchAccounting: r.req.RM.Accounts(c.Node.Probe.Holder)}
}

// connectFailures returns the candidate hosts that cannot be used, in the order of the candidate list.
func (r *reservation) connectFailures() (failed []job.Failure) {
	listed := r.req.ListedNodes()
	for _, def := range r.req.Nodes {
		if err := r.errs[def.Name]; err != nil && listed[def.Name] {
			failed = append(failed, job.Failure{Node: def.Name, Origin: def.Origin, Err: err})
		}
	}
	return failed
}

// unreachedError returns the error for a start that fails because hosts cannot be reached. If the request waits
// in the queue, the error makes it wait until these hosts can be reached.
func (r *reservation) unreachedError(failed []job.Failure) error {
	hosts := &HostsError{failed, len(r.hosts) > 0}
	if !r.queue.IsWaiting() {
		return hosts
	}
	return &plan.Error{Code: queue.CodeUnreachable, Text: strings.ReplaceAll(hosts.Error(), "\n", ", "), QueuePosition: r.queue.Position(),
		Remedy: "to start without the hosts that cannot be reached: --skip-unreachable"}
}

// reachedHosts returns the hosts that were reached and may run ranks, including hosts that were lost
// afterwards. A queue host may run ranks only if it is also a candidate.
func (r *reservation) reachedHosts() (hosts []*host) {
	named := r.req.ListedNodes()
	for _, n := range r.hosts {
		if named[n.def.Name] {
			hosts = append(hosts, n)
		}
	}
	return hosts
}

// cancelReason returns why ctx was cancelled: by a signal, or by the start timeout. If it was the start
// timeout, the error also names the hosts in failed, which have not replied.
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
	return &usererr.Error{Text: late.Text + "; these hosts have not answered yet: " + hostlist.Fold(hosts), Remedy: late.Remedy, Code: late.Code}
}

// connectTo connects to the given hosts that are not connected, all at the same time, and removes lost hosts. After the
// first new connection it waits at most otherHostsWait for the others (rule SV-36).
func (r *reservation) connectTo(ctx context.Context, hosts []job.NodeDef) {
	r.keepHosts(func(h *host) bool { return h.lost == nil })
	var wanted []job.NodeDef
	for _, host := range hosts {
		if !r.hasHost(host) {
			wanted = append(wanted, host)
		}
	}
	queueCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	startTimer := func() *time.Timer { return time.AfterFunc(otherHostsWait, func() { cancel(errNoReply) }) }
	if len(wanted) < len(hosts) {
		defer startTimer().Stop()
	}
	r.connectSet(queueCtx, wanted, 0, func(i int, c node.ConnectResult) {
		if r.errs[wanted[i].Name] = c.Err; c.Err == nil {
			startTimer()
			delete(r.errs, wanted[i].Name)
			r.addConnected(wanted[i], c.Node)
		}
	})
}
