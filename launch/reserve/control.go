package reserve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// This file has a word with jobs that run (survive.md 7): by a node of theirs, whichever answers first.

// A ControlResult is what a job has said to an ask.
type ControlResult struct {
	Job           job.ID
	Node          string // by which it was asked; empty: no node has the job
	Reply         job.ControlReply
	StillHasClaim bool // it says that it has ended, and has a claim on that node
}

// How long the helper of who asks may take for the last word.
const (
	statusTimeout     = 30 * time.Second // it gives up the job after 10 s
	finalReplyTimeout = 10 * time.Minute
	noTimeout         = 365 * 24 * time.Hour // where the job says for how long: its grace
)

// replyTimeoutFor is how long who asks for something waits for the last word of the job. That there is a first one, his helper sees
// to (survive.md SV-26); then a job takes its own time to write a checkpoint, and so does one that is moved,
// suspended behind one, or ended.
func replyTimeoutFor(verb job.Verb) time.Duration {
	switch verb {
	case job.VerbCheckpoint, job.VerbMigrate, job.VerbEnd, job.VerbSuspend:
		return noTimeout
	case job.VerbStatus:
		return statusTimeout
	}
	return finalReplyTimeout
}

// Control has a word with a job by one of its nodes. A request that waits in the queue can only be ended.
func Control(ctx context.Context, req job.Request, env Env, ref job.JobRef, ask job.ControlRequest) (asked ControlResult, err error) {
	req.TimeLimits.Start = replyTimeoutFor(ask.Verb) // what is asked for takes longer than a start
	err = withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.reportSkipped()
		pages, t, err := r.findInLedgers(ctx, ref, false)
		switch {
		case err != nil:
			return err
		case isQueued(pages, t) && ask.Verb == job.VerbEnd:
			asked, err = r.evictQueued(ctx, pages, t)
			return err
		case isQueued(pages, t):
			return stillQueuedError(t.Job)
		}
		asked, err = r.controlJob(ctx, pages, t, ask)
		if err == nil && ask.Verb == job.VerbEnd && asked.Reply.State == job.ReplyDone {
			err = r.waitUntilGone(ctx, t, &asked)
		}
		return err
	})
	return asked, err
}

// findInLedgers finds a job in the ledgers of all candidates, as namedJob does.
func (r *reservation) findInLedgers(ctx context.Context, ref job.JobRef, tickets bool) (pages []job.LedgerListing, t jobTarget, err error) {
	if pages, err = r.readLedgers(ctx, nil); err != nil {
		return nil, t, err
	}
	r.reportNotices(pages)
	t, err = resolveJob(pages, ref, tickets)
	return pages, t, err
}

// stillQueuedError is the error that a job cannot be asked since it has no ranks yet.
func stillQueuedError(id job.ID) error {
	return &usererr.Error{Text: fmt.Sprintf("job %s waits in the queue: none of its ranks runs", id), Remedy: "ask again when it runs; mpiexec --queue lists what waits"}
}

// evictQueued takes a request out of the queue.
func (r *reservation) evictQueued(ctx context.Context, pages []job.LedgerListing, t jobTarget) (asked ControlResult, err error) {
	at := slices.IndexFunc(t.uids, func(uid int) bool { return uid >= 0 })
	asked = ControlResult{Job: t.Job, Node: pages[at].Node, Reply: job.ControlReply{State: job.ReplyDone, Text: "it is taken out of the queue"}}
	err = r.requestEach(ctx, evictTimeout, []*host{r.hosts[at]},
		func(*host) wire.Message {
			return &wire.Evict{Ledger: r.req.Queue.LedgerDir, Job: t.Job, UID: t.uidOn(at)}
		},
		func(_ *host, m wire.Message) bool {
			evicted, ok := m.(*wire.Evicted)
			if ok && (evicted.Err != "" || evicted.Incomplete) {
				asked.Reply = job.ControlReply{State: job.ReplyRefused, Text: cmp.Or(evicted.Err, "its ticket is still held")}
			}
			return ok
		})
	if lost := r.hosts[at].lost; err == nil && lost != nil {
		asked.Reply = job.ControlReply{State: job.ReplyRefused, Text: usererr.Reason(lost)}
	}
	return asked, err
}

// claimsGoneTimeout is how long a job that has ended by its own word may have claims. Its helpers give them up one after the other.
const claimsGoneTimeout = time.Minute

// waitUntilGone waits until a job that says it has ended has no claim any more. If it keeps one it has not ended, and asked says so.
func (r *reservation) waitUntilGone(ctx context.Context, t jobTarget, asked *ControlResult) error {
	r.watchClaims()
	for until := time.Now().Add(claimsGoneTimeout); ; {
		pages, err := r.readLedgers(ctx, nil)
		if err != nil {
			return err
		}
		node, why := remainingClaim(pages, t)
		if node == "" {
			return nil
		}
		if !time.Now().Before(until) {
			asked.Node, asked.StillHasClaim = node, true
			asked.Reply = job.ControlReply{State: job.ReplyRefused, Text: fmt.Sprintf("job %s says that it has ended, but %s", t, why)}
			return nil
		}
		if err := r.queue.AwaitChange(ctx, until); err != nil {
			return err
		}
	}
}

// remainingClaim returns a node on which a job has a claim, or may have one since its ledger cannot be read; empty: there is none.
func remainingClaim(pages []job.LedgerListing, t jobTarget) (node, why string) {
	for i, p := range pages {
		switch {
		case t.uidOn(i) < 0:
		case p.Err != "":
			return p.Node, "that cannot be seen: " + p.Err
		case slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.isClaimOf(i, c) }):
			return p.Node, "it still has CPUs there"
		}
	}
	return "", ""
}

// Status is Pages for one job: all of its ranks tell what they are doing, on whatever nodes they are, if
// it obeys us. asked is void if nobody had to be asked. If several users claim the job's ID, none is asked.
func Status(ctx context.Context, req job.Request, env Env, ref job.JobRef) (pages []job.LedgerListing, asked ControlResult, err error) {
	err = withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.reportSkipped()
		if pages, err = r.readLedgers(ctx, nil); err != nil {
			return err
		}
		r.reportNotices(pages)
		if ref, err = resolveName(pages, ref); err != nil {
			return err
		}
		t, several := findJob(pages, ref, true)
		asked.Job = t.Job
		if several != nil {
			r.env.Report(several.Text + "; " + several.Remedy)
		}
		if several != nil || !t.isFound() {
			return nil
		}
		if pages, err = r.readLedgers(ctx, &t); err != nil || ranksReported(pages) >= jobSize(pages, t) {
			return err
		}
		asked, err = r.controlJob(ctx, pages, t, job.ControlRequest{Verb: job.VerbStatus})
		var first []job.LedgerListing // the job knows more than the kernel
		for _, s := range asked.Reply.Ranks {
			first = append(first, job.LedgerListing{Node: s.Node, States: []job.RankState{s.RankState}})
		}
		pages = append(first, pages...)
		return err
	})
	return pages, asked, err
}

// controlJob asks by a node of the job.
func (r *reservation) controlJob(ctx context.Context, pages []job.LedgerListing, t jobTarget, ask job.ControlRequest) (asked ControlResult, err error) {
	ask.Job, ask.Since = t.Job, time.Now()
	asked.Job = t.Job
	i, hears := pageToAsk(pages, t)
	if i < 0 {
		return asked, nil
	}
	if asked.Node = pages[i].Node; !hears {
		asked.Reply = job.ControlReply{State: job.ReplyRefused, Text: fmt.Sprintf("job %s has no rank there, it holds it in reserve; name a host of its ranks", ask.Job)}
		return asked, nil
	}
	ask.Owner = t.uidOn(i)
	question := &wire.ControlRequest{ID: "1", Ledger: r.req.Queue.LedgerDir, Request: ask} // the only one by this connection
	err = r.requestEach(ctx, replyTimeoutFor(ask.Verb), []*host{r.hosts[i]}, func(*host) wire.Message { return question },
		func(_ *host, m wire.Message) bool {
			answer, ok := m.(*wire.ControlReply)
			if ok = ok && answer.ID == question.ID; ok {
				asked.Reply = job.ControlReply{Job: ask.Job, State: answer.State, Text: answer.Text, Ranks: answer.Ranks}
			}
			return ok
		})
	if lost := r.hosts[i].lost; err == nil && asked.Reply.State == "" && lost != nil {
		asked.Reply = job.ControlReply{State: job.ReplyRefused, Text: usererr.Reason(lost)}
	}
	return asked, err
}

// pageToAsk is the page of the node by which a job is asked, the first that has a claim of it. What it only holds for an
// attempt that may follow hears nothing, and counts where there is nothing else. -1: there is none.
func pageToAsk(pages []job.LedgerListing, t jobTarget) (i int, hears bool) {
	for _, hears := range []bool{true, false} {
		for i, p := range pages {
			if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.isClaimOf(i, c) && (!hears || c.IdleReason != job.IdleStandby) }) {
				return i, hears
			}
		}
	}
	return -1, false
}

// ranksReported is of how many ranks a helper has told what they are doing, and not the kernel alone.
func ranksReported(pages []job.LedgerListing) int {
	ranks := make(map[int]bool)
	for _, p := range pages {
		for _, s := range p.States {
			ranks[s.Rank] = s.Phase != "alive"
		}
	}
	return len(slices.DeleteFunc(slices.Collect(maps.Keys(ranks)), func(r int) bool { return !ranks[r] }))
}

// jobSize is how many ranks a job has, as it says; 0: it does not run.
func jobSize(pages []job.LedgerListing, t jobTarget) (size int) {
	for i, p := range pages {
		for _, c := range p.Claims {
			if t.isClaimOf(i, c) {
				size = max(size, c.Size)
			}
		}
	}
	return size
}

// maxListing is how many bytes each of so many hosts may send of its ledger: what one user has written on all of them would
// fill the memory of whoever lists his jobs.
func maxListing(hosts int) int {
	const all, least = 256 << 20, 64 << 10
	return max(all/max(hosts, 1), least)
}

// reportNotices says whose entries are left out of ledgers.
func (r *reservation) reportNotices(pages []job.LedgerListing) {
	for _, p := range pages {
		if p.Notice != "" {
			r.env.Report(p.Node + ": " + p.Notice)
		}
	}
}

// readLedgers reads the ledgers of all candidates, in their order. If of is not nil, ranks of that job tell what they are doing.
func (r *reservation) readLedgers(ctx context.Context, of *jobTarget) (pages []job.LedgerListing, err error) {
	read, lists := make(map[*host]job.LedgerListing), make(map[*host]*wire.ListLedger)
	for i, n := range r.hosts {
		lists[n] = &wire.ListLedger{Ledger: r.req.Queue.LedgerDir, MaxBytes: maxListing(len(r.hosts))}
		if of != nil && of.uidOn(i) >= 0 {
			lists[n].Job, lists[n].UID = of.Job, of.uidOn(i)
		}
	}
	err = r.requestEach(ctx, queryTimeout, r.hosts, func(n *host) wire.Message { return lists[n] },
		func(n *host, m wire.Message) bool {
			listed, ok := m.(*wire.LedgerListed)
			if ok {
				read[n] = job.LedgerListing{Node: n.def.Name, KeepsQueue: r.queue.IsQueueHost(n), ReaderUID: listed.UID,
					Claims: listed.Claims, Tickets: listed.Tickets, States: listed.States, Err: listed.Err, Notice: listed.Notice}
			}
			return ok
		})
	for _, n := range r.hosts {
		page, answered := read[n]
		if !answered && n.lost != nil {
			page = job.LedgerListing{Node: n.def.Name, Err: usererr.Reason(n.lost)}
		}
		pages = append(pages, page)
	}
	return pages, err
}
