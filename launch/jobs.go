package launch

import (
	"context"
	"slices"
	"time"

	"remshell/job"
	"remshell/wire"
)

// Pages reads the ledgers of all candidates, in their order. Those that cannot be reached
// are said and left out. Those with ranks of a job tell what these are doing; "": no job's.
func Pages(ctx context.Context, req job.Request, env Env, id job.ID) ([]job.Page, error) {
	var pages []job.Page
	err := visit(ctx, req, env, func(ctx context.Context, b *booking) error {
		b.saySkipped()
		read := make(map[*node]job.Page)
		err := b.ask(ctx, lookTime, b.fleet.all, func(*node) wire.Message { return &wire.List{Ledger: req.Queue.Ledger, Job: id} },
			func(n *node, m wire.Message) bool {
				listed, ok := m.(*wire.Listed)
				if ok {
					read[n] = job.Page{Node: n.def.Name, Queue: n == b.fleet.queue || slices.Contains(b.fleet.queues, n),
						Claims: listed.Claims, Tickets: listed.Tickets, States: listed.States, Err: listed.Err}
				}
				return ok
			})
		for _, n := range b.fleet.all {
			page, answered := read[n]
			if !answered && n.lost != nil {
				page = job.Page{Node: n.def.Name, Err: reasonOf(n.lost)}
			}
			pages = append(pages, page)
		}
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
func Alert(ctx context.Context, req job.Request, env Env, id job.ID, signal int) ([]Alerted, error) {
	var results []Alerted
	err := visit(ctx, req, env, func(ctx context.Context, b *booking) error {
		b.saySkipped()
		err := b.ask(ctx, lookTime, b.fleet.all,
			func(*node) wire.Message { return &wire.Alert{Ledger: req.Queue.Ledger, Job: id, Number: signal} },
			func(n *node, m wire.Message) bool {
				alerted, ok := m.(*wire.Alerted)
				if ok {
					results = append(results, Alerted{n.def.Name, alerted.Ranks, alerted.Err})
				}
				return ok
			})
		b.sayLost()
		return err
	})
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
func Evict(ctx context.Context, req job.Request, env Env, id job.ID) ([]Evicted, error) {
	var results []Evicted
	err := visit(ctx, req, env, func(ctx context.Context, b *booking) error {
		b.saySkipped()
		err := b.ask(ctx, evictTime, b.fleet.all,
			func(*node) wire.Message { return &wire.Evict{Ledger: req.Queue.Ledger, Job: id} },
			func(n *node, m wire.Message) bool {
				evicted, ok := m.(*wire.Evicted)
				if ok {
					results = append(results, Evicted{n.def.Name, evicted.Done, evicted.Left, evicted.Err})
				}
				return ok
			})
		b.sayLost()
		return err
	})
	return results, err
}

// evictTime is how long a node may take to end the holders of a job's entries.
const evictTime = 30 * time.Second

// sayLost tells which hosts did not answer.
func (b *booking) sayLost() {
	for _, n := range b.fleet.all {
		if n.lost != nil {
			b.env.Say(n.def.Name + ": " + reasonOf(n.lost))
		}
	}
}

// visit reaches the candidates, does something there, and lets their helpers go.
func visit(ctx context.Context, req job.Request, env Env, do func(context.Context, *booking) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	env.pauses = new(pauses)
	watchSignals(env, cancel)
	starting, done := env.pauses.within(ctx, startLimit(req), lateError(req))
	defer done()
	env.Greet = min(env.Greet, lookTime)
	b := newBooking(req, env, newBox())
	defer b.fleet.close()
	err := b.muster(starting)
	if err == nil {
		err = do(starting, b)
	}
	if err != nil {
		return err
	}
	for _, n := range b.fleet.all {
		n.send(&wire.Bye{})
	}
	return nil
}
