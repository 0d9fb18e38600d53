package reserve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/wire"
)

// This file has a word with jobs that run (survive.md 7): by a node of theirs, whichever answers first.

// An Asked is what a job has said to an ask.
type Asked struct {
	Job    job.ID
	Node   string // by which it was asked; empty: no node has the job
	Answer job.Answer
	Keeps  bool // it says that it has ended, and has a claim on that node
}

// How long the helper of who asks may take for the last word.
const (
	statusTime = 30 * time.Second // it gives up the job after 10 s
	finalTime  = 10 * time.Minute
	waitTime   = 365 * 24 * time.Hour // where the job says for how long: its grace
)

// patienceWith is how long who asks for something waits for the last word of the job. That there is a first one, his helper sees
// to (survive.md SV-26); then a job takes its own time to write a checkpoint, and so does one that is moved,
// suspended behind one, or ended.
func patienceWith(verb job.Verb) time.Duration {
	switch verb {
	case job.AskCheckpoint, job.AskMigrate, job.AskEnd, job.AskSuspend:
		return waitTime
	case job.AskStatus:
		return statusTime
	}
	return finalTime
}

// Ask has a word with a job by one of its nodes. A request that waits in the queue can only be ended.
func Ask(ctx context.Context, req job.Request, env Env, ref job.Ref, ask job.Ask) (asked Asked, err error) {
	req.Limits.Start = patienceWith(ask.Verb) // what is asked for takes longer than a start
	err = visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.saySkipped()
		pages, t, err := r.seek(ctx, ref, false)
		switch {
		case err != nil:
			return err
		case isWaiting(pages, t) && ask.Verb == job.AskEnd:
			asked, err = r.endRequest(ctx, pages, t)
			return err
		case isWaiting(pages, t):
			return waitsError(t.Job)
		}
		asked, err = r.askJob(ctx, pages, t, ask)
		if err == nil && ask.Verb == job.AskEnd && asked.Answer.State == job.AskDone {
			err = r.awaitGone(ctx, t, &asked)
		}
		return err
	})
	return asked, err
}

// seek finds a job in the ledgers of all candidates, as namedJob does.
func (r *reservation) seek(ctx context.Context, ref job.Ref, tickets bool) (pages []job.Page, t target, err error) {
	if pages, err = r.pages(ctx, nil); err != nil {
		return nil, t, err
	}
	r.sayNotices(pages)
	t, err = namedJob(pages, ref, tickets)
	return pages, t, err
}

// waitsError is the error that a job cannot be asked since it has no ranks yet.
func waitsError(id job.ID) error {
	return &fault.Error{Text: fmt.Sprintf("job %s waits in the queue: none of its ranks runs", id), Remedy: "ask again when it runs; mpiexec --queue lists what waits"}
}

// endRequest takes a request out of the queue.
func (r *reservation) endRequest(ctx context.Context, pages []job.Page, t target) (asked Asked, err error) {
	at := slices.IndexFunc(t.uids, func(uid int) bool { return uid >= 0 })
	asked = Asked{Job: t.Job, Node: pages[at].Node, Answer: job.Answer{State: job.AskDone, Text: "it is taken out of the queue"}}
	err = r.ask(ctx, evictTime, []*host{r.hosts[at]},
		func(*host) wire.Message { return &wire.Evict{Ledger: r.req.Queue.Ledger, Job: t.Job, UID: t.uid(at)} },
		func(_ *host, m wire.Message) bool {
			evicted, ok := m.(*wire.Evicted)
			if ok && (evicted.Err != "" || evicted.Left) {
				asked.Answer = job.Answer{State: job.AskRefused, Text: cmp.Or(evicted.Err, "its ticket is still held")}
			}
			return ok
		})
	if lost := r.hosts[at].lost; err == nil && lost != nil {
		asked.Answer = job.Answer{State: job.AskRefused, Text: fault.Reason(lost)}
	}
	return asked, err
}

// goneTime is how long a job that has ended by its own word may have claims. Its helpers give them up one after the other.
const goneTime = time.Minute

// awaitGone waits until a job that says it has ended has no claim any more. If it keeps one it has not ended, and asked says so.
func (r *reservation) awaitGone(ctx context.Context, t target, asked *Asked) error {
	r.watchClaims()
	for until := time.Now().Add(goneTime); ; {
		pages, err := r.pages(ctx, nil)
		if err != nil {
			return err
		}
		node, why := remains(pages, t)
		if node == "" {
			return nil
		}
		if !time.Now().Before(until) {
			asked.Node, asked.Keeps = node, true
			asked.Answer = job.Answer{State: job.AskRefused, Text: fmt.Sprintf("job %s says that it has ended, but %s", t, why)}
			return nil
		}
		if err := r.queue.AwaitChange(ctx, until); err != nil {
			return err
		}
	}
}

// remains returns a node on which a job has a claim, or may have one since its ledger cannot be read; empty: there is none.
func remains(pages []job.Page, t target) (node, why string) {
	for i, p := range pages {
		switch {
		case t.uid(i) < 0:
		case p.Err != "":
			return p.Node, "that cannot be seen: " + p.Err
		case slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.has(i, c) }):
			return p.Node, "it still has CPUs there"
		}
	}
	return "", ""
}

// Status is Pages for one job: all of its ranks tell what they are doing, on whatever nodes they are, if
// it obeys us. asked is void if nobody had to be asked. If several users claim the job's ID, none is asked.
func Status(ctx context.Context, req job.Request, env Env, ref job.Ref) (pages []job.Page, asked Asked, err error) {
	err = visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.saySkipped()
		if pages, err = r.pages(ctx, nil); err != nil {
			return err
		}
		r.sayNotices(pages)
		if ref, err = resolve(pages, ref); err != nil {
			return err
		}
		t, several := findJob(pages, ref, true)
		asked.Job = t.Job
		if several != nil {
			r.env.Say(several.Text + "; " + several.Remedy)
		}
		if several != nil || !t.anywhere() {
			return nil
		}
		if pages, err = r.pages(ctx, &t); err != nil || told(pages) >= sizeOf(pages, t) {
			return err
		}
		asked, err = r.askJob(ctx, pages, t, job.Ask{Verb: job.AskStatus})
		var first []job.Page // the job knows more than the kernel
		for _, s := range asked.Answer.Ranks {
			first = append(first, job.Page{Node: s.Node, States: []job.RankState{s.RankState}})
		}
		pages = append(first, pages...)
		return err
	})
	return pages, asked, err
}

// askJob asks by a node of the job.
func (r *reservation) askJob(ctx context.Context, pages []job.Page, t target, ask job.Ask) (asked Asked, err error) {
	ask.Job, ask.Since = t.Job, time.Now()
	asked.Job = t.Job
	i, hears := byWhom(pages, t)
	if i < 0 {
		return asked, nil
	}
	if asked.Node = pages[i].Node; !hears {
		asked.Answer = job.Answer{State: job.AskRefused, Text: fmt.Sprintf("job %s has no rank there, it holds it in reserve; name a host of its ranks", ask.Job)}
		return asked, nil
	}
	ask.Owner = t.uid(i)
	question := &wire.Ask{ID: "1", Ledger: r.req.Queue.Ledger, Ask: ask} // the only one by this connection
	err = r.ask(ctx, patienceWith(ask.Verb), []*host{r.hosts[i]}, func(*host) wire.Message { return question },
		func(_ *host, m wire.Message) bool {
			answer, ok := m.(*wire.Answer)
			if ok = ok && answer.ID == question.ID; ok {
				asked.Answer = job.Answer{Job: ask.Job, State: answer.State, Text: answer.Text, Ranks: answer.Ranks}
			}
			return ok
		})
	if lost := r.hosts[i].lost; err == nil && asked.Answer.State == "" && lost != nil {
		asked.Answer = job.Answer{State: job.AskRefused, Text: fault.Reason(lost)}
	}
	return asked, err
}

// byWhom is the page of the node by which a job is asked, the first that has a claim of it. What it only holds for an
// attempt that may follow hears nothing, and counts where there is nothing else. -1: there is none.
func byWhom(pages []job.Page, t target) (i int, hears bool) {
	for _, hears := range []bool{true, false} {
		for i, p := range pages {
			if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.has(i, c) && (!hears || c.Resting != job.Spare) }) {
				return i, hears
			}
		}
	}
	return -1, false
}

// told is of how many ranks a helper has told what they are doing, and not the kernel alone.
func told(pages []job.Page) int {
	ranks := make(map[int]bool)
	for _, p := range pages {
		for _, s := range p.States {
			ranks[s.Rank] = s.Life != "alive"
		}
	}
	return len(slices.DeleteFunc(slices.Collect(maps.Keys(ranks)), func(r int) bool { return !ranks[r] }))
}

// sizeOf is how many ranks a job has, as it says; 0: it does not run.
func sizeOf(pages []job.Page, t target) (size int) {
	for i, p := range pages {
		for _, c := range p.Claims {
			if t.has(i, c) {
				size = max(size, c.Size)
			}
		}
	}
	return size
}

// listRoom is how many bytes each of so many hosts may send of its ledger: what one user has written on all of them would
// fill the memory of whoever lists his jobs.
func listRoom(hosts int) int {
	const all, least = 256 << 20, 64 << 10
	return max(all/max(hosts, 1), least)
}

// sayNotices says whose entries are left out of ledgers.
func (r *reservation) sayNotices(pages []job.Page) {
	for _, p := range pages {
		if p.Notice != "" {
			r.env.Say(p.Node + ": " + p.Notice)
		}
	}
}

// pages reads the ledgers of all candidates, in their order. If of is not nil, ranks of that job tell what they are doing.
func (r *reservation) pages(ctx context.Context, of *target) (pages []job.Page, err error) {
	read, lists := make(map[*host]job.Page), make(map[*host]*wire.List)
	for i, n := range r.hosts {
		lists[n] = &wire.List{Ledger: r.req.Queue.Ledger, Most: listRoom(len(r.hosts))}
		if of != nil && of.uid(i) >= 0 {
			lists[n].Job, lists[n].UID = of.Job, of.uid(i)
		}
	}
	err = r.ask(ctx, lookTime, r.hosts, func(n *host) wire.Message { return lists[n] },
		func(n *host, m wire.Message) bool {
			listed, ok := m.(*wire.Listed)
			if ok {
				read[n] = job.Page{Node: n.def.Name, Queue: r.queue.Keeps(n), UID: listed.UID,
					Claims: listed.Claims, Tickets: listed.Tickets, States: listed.States, Err: listed.Err, Notice: listed.Notice}
			}
			return ok
		})
	for _, n := range r.hosts {
		page, answered := read[n]
		if !answered && n.lost != nil {
			page = job.Page{Node: n.def.Name, Err: fault.Reason(n.lost)}
		}
		pages = append(pages, page)
	}
	return pages, err
}
