package reserve

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/usererr"
	"remshell/wire"
)

// Survey connects to the candidates, returns the reports of their helpers, and disconnects. It is used by
// options that only print information and start no ranks.
func Survey(ctx context.Context, req job.Request, env Env) (snap job.Snapshot, err error) {
	_, err = Rehearse(ctx, req, env, func(seen job.Snapshot) job.Plan { snap = seen; return job.Plan{} })
	return snap, err
}

// Rehearse checks whether a job could start. It claims nothing. decide makes the plan from the reports of the hosts.
// Rehearse asks the hosts of the plan whether they have the directories and programs of their ranks, and whether the
// rules of their administrator allow the job. refused names the hosts on which a start would fail, or is nil.
func Rehearse(ctx context.Context, req job.Request, env Env, decide func(job.Snapshot) job.Plan) (refused, err error) {
	var snap job.Snapshot
	err = withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) error {
		defer r.reportLedgerNotices()
		if err := r.surveyNodes(ctx); err != nil {
			return err
		}
		ahead, err := r.queue.Count(ctx, queryTimeout)
		r.snap.Ahead = ahead
		snap = r.snap
		r.reportSkipped()
		if err == nil {
			refused, err = r.checkPaths(ctx, decide(snap))
		}
		return err
	})
	if err == nil && env.OnSnapshot != nil {
		env.OnSnapshot(snap)
	}
	return refused, err
}

// checkPaths asks the hosts of a plan whether they have the directories and programs that its ranks need. If some hosts
// lack them, refused is a *HostsError. If hosts could not be asked, err says why.
func (r *reservation) checkPaths(ctx context.Context, p job.Plan) (refused, err error) {
	var failed []job.Failure
	for app := range r.req.Apps {
		var nodes []*host
		for _, np := range p.Nodes {
			if hasProgram(r.req, app) && slices.ContainsFunc(np.Ranks, func(rank job.RankPlan) bool { return rank.App == app }) {
				nodes = append(nodes, r.snapHosts[np.Node])
			}
		}
		err := call(ctx, r, queryTimeout, nodes, func(n *host) *wire.Diagnose {
			m := lookFor(r.req, app, n.def)
			m.Brief = true
			return m
		}, func(n *host, answer *wire.Diagnosed) {
			d := cmp.Or(answer.Diagnosis.Dir, answer.Diagnosis.Program)
			if text := answer.Diagnosis.Rules.Forbidden; text != "" {
				d = job.Defect{Text: text, Remedy: "ask the administrator of the host, or choose other hosts"}
				if answer.Diagnosis.Rules.Drained {
					d.Remedy = "choose other hosts, or, if you have root access there, use: mpijob undrain root@" + n.def.Name
				}
			}
			if d.Text != "" {
				failed = append(failed, job.Failure{Node: n.def.Name, Err: &usererr.Error{Text: d.Text, Remedy: d.Remedy}})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if failed == nil {
		return nil, nil
	}
	slices.SortStableFunc(failed, func(x, y job.Failure) int { return strings.Compare(x.Node, y.Node) })
	return &HostsError{Failed: failed}, nil
}

// Ledgers reads the ledgers (the directories of claims) of all candidates and returns them in the order of
// the candidates. It reports candidates that cannot be reached, and leaves them out.
func Ledgers(ctx context.Context, req job.Request, env Env) (pages []job.LedgerListing, err error) {
	err = withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.reportSkipped()
		pages, err = r.readLedgers(ctx, nil)
		r.reportNotices(pages)
		return err
	})
	return pages, err
}

// A SignalResult is the result of SignalJob on one node.
type SignalResult struct {
	Node  string
	Ranks int    // number of ranks that got the signal
	Err   string // why no rank got it
}

// SignalJob sends a signal to the ranks of a running job on all candidate hosts.
func SignalJob(ctx context.Context, req job.Request, env Env, ref job.JobRef, signal int) ([]SignalResult, error) {
	var results []SignalResult
	unread, err := callJobNodes(ctx, req, env, ref, false, queryTimeout,
		func(t jobTarget, uid int) *wire.SignalJob {
			return &wire.SignalJob{Ledger: req.Queue.LedgerDir, Job: t.Job, UID: uid, Signal: signal}
		},
		func(node string, signaled *wire.JobSignaled) {
			results = append(results, SignalResult{node, signaled.Ranks, signaled.Err})
		})
	for _, p := range unread {
		results = append(results, SignalResult{Node: p.Node, Err: p.Err})
	}
	return results, err
}

// An EvictResult is the result of Evict on one node.
type EvictResult struct {
	Node      string
	Done      []string
	StillHeld bool   // some claim or ticket is still held
	Err       string // why nothing was done
}

// Evict ends, on all candidates, the processes that hold a job's claims and tickets (rule TRUST-19). Administrators use
// it for a job that does not react to other commands.
func Evict(ctx context.Context, req job.Request, env Env, ref job.JobRef) ([]EvictResult, error) {
	var results []EvictResult
	unread, err := callJobNodes(ctx, req, env, ref, true, evictTimeout,
		func(t jobTarget, uid int) *wire.Evict {
			return &wire.Evict{Ledger: req.Queue.LedgerDir, Job: t.Job, UID: uid}
		},
		func(node string, evicted *wire.Evicted) {
			results = append(results, EvictResult{node, evicted.Done, evicted.Incomplete, evicted.Err})
		})
	for _, p := range unread {
		results = append(results, EvictResult{Node: p.Node, Err: p.Err})
	}
	return results, err
}

// callJobNodes finds a job and sends a request to each node that the job uses. unread contains the listings of nodes
// whose claims could not be read. If tickets is false, it returns an error for a job that waits in the queue.
func callJobNodes[Req wire.Request[Rep], Rep any](ctx context.Context, req job.Request, env Env, ref job.JobRef, tickets bool, limit time.Duration,
	request func(t jobTarget, uid int) Req, handle func(node string, reply Rep)) (unread []job.LedgerListing, err error) {
	err = withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.reportSkipped()
		pages, t, err := r.findInLedgers(ctx, ref, tickets)
		if err != nil {
			return err
		}
		if !tickets && isQueued(pages, t) {
			return stillQueuedError(t.Job)
		}
		uids := make(map[*host]int)
		var nodes []*host
		for i, n := range r.hosts {
			if t.uidOn(i) >= 0 {
				uids[n] = t.uidOn(i)
				nodes = append(nodes, n)
			} else if pages[i].Err != "" && n.lost == nil {
				unread = append(unread, pages[i])
			}
		}
		err = call(ctx, r, limit, nodes, func(n *host) Req { return request(t, uids[n]) },
			func(n *host, reply Rep) { handle(n.def.Name, reply) })
		r.reportLost()
		return err
	})
	return unread, err
}

// CleanNodes ends all processes that a job has left behind on the given candidates. It returns the nodes on which
// neither claims nor processes of the job are left.
func CleanNodes(ctx context.Context, req job.Request, env Env, nodes []string) (cleaned map[string]bool) {
	cleaned = make(map[string]bool)
	req.SkipUnreachable, req.Queue.Host, req.Queue.StandbyHosts = true, nil, nil
	req.HostEntries, req.FixedPlacements = nil, nil // their indices refer to the full list of nodes
	req.Nodes = slices.DeleteFunc(slices.Clone(req.Nodes), func(n job.NodeDef) bool { return !slices.Contains(nodes, n.Name) })
	withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) error {
		return call(ctx, r, evictTimeout, r.hosts,
			func(*host) *wire.Evict {
				return &wire.Evict{Ledger: req.Queue.LedgerDir, Job: req.Job, Processes: true}
			},
			func(n *host, evicted *wire.Evicted) {
				if !evicted.Incomplete && evicted.Err == "" {
					cleaned[n.def.Name] = true
				}
			})
	})
	return cleaned
}

// evictTimeout is how long a node may take to end the processes that hold a job's claims and tickets.
const evictTimeout = 30 * time.Second

// reportLost reports to the user each host with which mpiexec lost contact, and why.
func (r *reservation) reportLost() {
	for _, n := range r.hosts {
		if n.lost != nil {
			r.env.Report(n.def.Name + ": " + usererr.Reason(n.lost))
		}
	}
}

// withHelpers connects to the candidate hosts, calls query, and disconnects from them.
func withHelpers(ctx context.Context, req job.Request, env Env, query func(context.Context, *reservation) error) error {
	ctx, r, done := newQuery(ctx, req, env)
	defer done()
	if err := r.connectCandidates(ctx); err != nil {
		return err
	}
	if err := query(ctx, r); err != nil {
		return err
	}
	for _, n := range r.hosts {
		n.Send(&wire.Bye{})
	}
	return nil
}

// newQuery returns a reservation that only queries nodes and claims nothing. The returned context ends when the start
// timeout has passed, or when mpiexec receives a signal that stops it. The returned function closes all connections of
// the reservation.
func newQuery(ctx context.Context, req job.Request, env Env) (context.Context, *reservation, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	env.StopTimes = new(node.StopTimes)
	env.Inbox = node.NewInbox()
	env.Listener = node.Listener{Inbox: env.Inbox, Log: env.Log}
	env.GreetTimeout = min(env.GreetTimeout, queryTimeout)
	WatchSignals(env, cancel)
	r := newReservation(req, env)
	starting, done := r.withinLimit(ctx, startTimeoutError(req))
	return starting, r, func() {
		r.newResult(node.Deadline{}).Close()
		done()
		cancel(nil)
	}
}
