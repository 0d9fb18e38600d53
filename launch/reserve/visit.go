package reserve

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

// Survey connects to the candidates as Reserve does, takes in what their helpers found, and
// lets them go. The options that only tell use it.
func Survey(ctx context.Context, req job.Request, env Env) (snap job.Snapshot, err error) {
	_, err = Rehearse(ctx, req, env, func(seen job.Snapshot) job.Plan { snap = seen; return job.Plan{} })
	return snap, err
}

// Rehearse does what Survey does, has decide make a plan of what was seen, and asks the hosts of the plan for the directories and
// programs of their ranks, and for what their administrators allow. refused says on which hosts a start would fail; it is nil if on none.
func Rehearse(ctx context.Context, req job.Request, env Env, decide func(job.Snapshot) job.Plan) (refused, err error) {
	var snap job.Snapshot
	err = visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		defer r.tellNotices()
		if err := r.survey(ctx); err != nil {
			return err
		}
		ahead, err := r.queue.Count(ctx, lookTime)
		r.snap.Ahead = ahead
		snap = r.snap
		r.saySkipped()
		if err == nil {
			refused, err = r.rehearse(ctx, decide(snap))
		}
		return err
	})
	if err == nil && env.Seen != nil {
		env.Seen(snap)
	}
	return refused, err
}

// rehearse asks the hosts of a plan for what its ranks need there.
func (r *reservation) rehearse(ctx context.Context, p job.Plan) (refused, err error) {
	var failed []job.Failure
	for app := range r.req.Apps {
		var nodes []*host
		for _, np := range p.Nodes {
			if hasProgram(r.req, app) && slices.ContainsFunc(np.Ranks, func(rank job.RankPlan) bool { return rank.App == app }) {
				nodes = append(nodes, r.seen[np.Node])
			}
		}
		err := r.ask(ctx, lookTime, nodes, func(n *host) wire.Message {
			m := lookFor(r.req, app, n.def)
			m.Brief = true
			return m
		}, func(n *host, m wire.Message) bool {
			answer, ok := m.(*wire.Examined)
			if ok {
				d := cmp.Or(answer.Exam.Dir, answer.Exam.Program)
				if text := answer.Exam.Rules.Barred; text != "" {
					d = job.Defect{Text: text, Remedy: "ask its administrator, or name other hosts"}
				}
				if d.Text != "" {
					failed = append(failed, job.Failure{Node: n.def.Name, Err: &fault.Error{Text: d.Text, Remedy: d.Remedy}})
				}
			}
			return ok
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

// Pages reads the ledgers of all candidates, in their order. Those that cannot be reached
// are said and left out.
func Pages(ctx context.Context, req job.Request, env Env) (pages []job.Page, err error) {
	err = visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.saySkipped()
		pages, err = r.pages(ctx, nil)
		r.sayNotices(pages)
		return err
	})
	return pages, err
}

// An Alerted is what came of a signal on one node.
type Alerted struct {
	Node  string
	Ranks int    // that got it
	Err   string // why none did
}

// Alert sends a signal to the ranks of a running job on all candidates.
func Alert(ctx context.Context, req job.Request, env Env, ref job.Ref, signal int) ([]Alerted, error) {
	var results []Alerted
	unread, err := askEach(ctx, req, env, ref, false, lookTime,
		func(t target, uid int) wire.Message {
			return &wire.Alert{Ledger: req.Queue.Ledger, Job: t.Job, UID: uid, Number: signal}
		},
		func(node string, m wire.Message) bool {
			alerted, ok := m.(*wire.Alerted)
			if ok {
				results = append(results, Alerted{node, alerted.Ranks, alerted.Err})
			}
			return ok
		})
	for _, p := range unread {
		results = append(results, Alerted{Node: p.Node, Err: p.Err})
	}
	return results, err
}

// An Evicted is what was done about a job's entries on one node.
type Evicted struct {
	Node string
	Done []string
	Left bool   // something is still held
	Err  string // why nothing was done
}

// Evict ends the holders of a job's claims and tickets on all candidates (TRUST-19).
func Evict(ctx context.Context, req job.Request, env Env, ref job.Ref) ([]Evicted, error) {
	var results []Evicted
	unread, err := askEach(ctx, req, env, ref, true, evictTime,
		func(t target, uid int) wire.Message {
			return &wire.Evict{Ledger: req.Queue.Ledger, Job: t.Job, UID: uid}
		},
		func(node string, m wire.Message) bool {
			evicted, ok := m.(*wire.Evicted)
			if ok {
				results = append(results, Evicted{node, evicted.Done, evicted.Left, evicted.Err})
			}
			return ok
		})
	for _, p := range unread {
		results = append(results, Evicted{Node: p.Node, Err: p.Err})
	}
	return results, err
}

// askEach finds a job, puts a question to each node that has it, and returns the pages of the nodes whose ledger cannot be read.
// Without tickets a job that waits in the queue is an error.
func askEach(ctx context.Context, req job.Request, env Env, ref job.Ref, tickets bool, limit time.Duration,
	question func(t target, uid int) wire.Message, heard func(node string, m wire.Message) bool) (unread []job.Page, err error) {
	err = visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.saySkipped()
		pages, t, err := r.seek(ctx, ref, tickets)
		if err != nil {
			return err
		}
		if !tickets && isWaiting(pages, t) {
			return waitsError(t.Job)
		}
		uids := make(map[*host]int)
		var nodes []*host
		for i, n := range r.hosts {
			if t.uid(i) >= 0 {
				uids[n] = t.uid(i)
				nodes = append(nodes, n)
			} else if pages[i].Err != "" && n.lost == nil {
				unread = append(unread, pages[i])
			}
		}
		err = r.ask(ctx, limit, nodes, func(n *host) wire.Message { return question(t, uids[n]) },
			func(n *host, m wire.Message) bool { return heard(n.def.Name, m) })
		r.sayLost()
		return err
	})
	return unread, err
}

// Clean ends all that a job has left on some of its candidates, and reports for which of them nothing
// of it lives any more: its entries in the ledger, and processes that carry its mark.
func Clean(ctx context.Context, req job.Request, env Env, nodes []string) (clean map[string]bool) {
	clean = make(map[string]bool)
	req.Skip, req.Queue.Host, req.Queue.Spare = true, nil, nil
	req.Turns, req.RankFile = nil, nil // they count in nodes that are left out
	req.Nodes = slices.DeleteFunc(slices.Clone(req.Nodes), func(n job.NodeDef) bool { return !slices.Contains(nodes, n.Name) })
	visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		return r.ask(ctx, evictTime, r.hosts,
			func(*host) wire.Message { return &wire.Evict{Ledger: req.Queue.Ledger, Job: req.Job, Processes: true} },
			func(n *host, m wire.Message) bool {
				evicted, ok := m.(*wire.Evicted)
				if ok && !evicted.Left && evicted.Err == "" {
					clean[n.def.Name] = true
				}
				return ok
			})
	})
	return clean
}

// evictTime is how long a node may take to end the holders of a job's entries.
const evictTime = 30 * time.Second

// sayLost tells which hosts did not answer.
func (r *reservation) sayLost() {
	for _, n := range r.hosts {
		if n.lost != nil {
			r.env.Say(n.def.Name + ": " + fault.Reason(n.lost))
		}
	}
}

// visit reaches the candidates, does something there, and lets their helpers go.
func visit(ctx context.Context, req job.Request, env Env, do func(context.Context, *reservation) error) error {
	ctx, r, done := newVisit(ctx, req, env)
	defer done()
	if err := r.connectCandidates(ctx); err != nil {
		return err
	}
	if err := do(ctx, r); err != nil {
		return err
	}
	for _, n := range r.hosts {
		n.Send(&wire.Bye{})
	}
	return nil
}

// newVisit is a reservation that will claim nothing. It ends with the context, which a signal
// ends, or the time for a start.
func newVisit(ctx context.Context, req job.Request, env Env) (context.Context, *reservation, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	env.Pauses = new(node.Pauses)
	env.Inbox = node.NewInbox()
	env.Listener = node.Listener{Inbox: env.Inbox, Log: env.Log}
	env.Greet = min(env.Greet, lookTime)
	WatchSignals(env, cancel)
	r := newReservation(req, env)
	starting, done := r.within(ctx, lateError(req))
	return starting, r, func() {
		r.result(node.Due{}).Close()
		done()
		cancel(nil)
	}
}
