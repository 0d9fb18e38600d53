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

// This file sends requests to running jobs (survive.md 7), through one of their nodes.

// A ControlResult is a job's reply to a ControlRequest, such as a request to end the job.
type ControlResult struct {
	Job           job.ID
	Node          string // node to which the request was sent; empty if no node has the job
	Reply         job.ControlReply
	StillHasClaim bool // the job replied that it has ended, but still has a claim on Node
}

// These are the maximum times to wait for a job's final reply to a control request.
const (
	statusTimeout     = 30 * time.Second // the helper itself gives up after 10 s
	finalReplyTimeout = 10 * time.Minute
	noTimeout         = 365 * 24 * time.Hour // the job decides how long it takes, such as by its grace time
)

// replyTimeoutFor returns how long to wait for a job's final reply to a request. The job may need time to
// write a checkpoint, to move to other hosts, or to end. A first reply always comes soon: the helper on the
// user's host ensures that (rule SV-26).
func replyTimeoutFor(verb job.Verb) time.Duration {
	switch verb {
	case job.VerbCheckpoint, job.VerbMigrate, job.VerbEnd, job.VerbSuspend:
		return noTimeout
	case job.VerbStatus, job.VerbStacks:
		return statusTimeout
	}
	return finalReplyTimeout
}

// Control sends a request to a job through one of its nodes. A job that still waits in the queue accepts only
// VerbEnd.
func Control(ctx context.Context, req job.Request, env Env, ref job.JobRef, request job.ControlRequest) (result ControlResult, err error) {
	req.TimeLimits.Start = replyTimeoutFor(request.Verb) // requests may take longer than a start
	err = withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.reportSkipped()
		pages, t, err := r.findInLedgers(ctx, ref, false)
		switch {
		case err != nil:
			return err
		case isQueued(pages, t) && request.Verb == job.VerbEnd:
			result, err = r.evictQueued(ctx, pages, t)
			return err
		case isQueued(pages, t):
			return stillQueuedError(t.Job)
		}
		result, err = r.controlJob(ctx, pages, t, request)
		if err == nil && request.Verb == job.VerbEnd && result.Reply.State == job.ReplyDone {
			err = r.waitUntilGone(ctx, t, &result)
		}
		return err
	})
	return result, err
}

// findInLedgers reads the ledgers (directories of claims) of all candidates and finds the job in them with
// resolveJob.
func (r *reservation) findInLedgers(ctx context.Context, ref job.JobRef, tickets bool) (pages []job.LedgerListing, t jobTarget, err error) {
	if pages, err = r.readLedgers(ctx, nil); err != nil {
		return nil, t, err
	}
	r.reportNotices(pages)
	t, err = resolveJob(pages, ref, tickets)
	return pages, t, err
}

// stillQueuedError returns the error for a request to a job that waits in the queue and therefore has no
// ranks yet.
func stillQueuedError(id job.ID) error {
	return &usererr.Error{Text: fmt.Sprintf("job %s waits in the queue, so none of its ranks is running yet", id), Remedy: "repeat this command when the job runs; mpiexec --queue lists waiting jobs"}
}

// evictQueued ends a job that waits in the queue.
func (r *reservation) evictQueued(ctx context.Context, pages []job.LedgerListing, t jobTarget) (result ControlResult, err error) {
	at := slices.IndexFunc(t.uids, func(uid int) bool { return uid >= 0 })
	result = ControlResult{Job: t.Job, Node: pages[at].Node, Reply: job.ControlReply{State: job.ReplyDone, Text: "the job was removed from the queue"}}
	evicted, err := callOne(ctx, r, evictTimeout, r.hosts[at], &wire.Evict{Ledger: r.req.Queue.LedgerDir, Job: t.Job, UID: t.uidOn(at)})
	if evicted != nil && (evicted.Err != "" || evicted.Incomplete) {
		result.Reply = job.ControlReply{State: job.ReplyRefused, Text: cmp.Or(evicted.Err, "a process of the waiting job still runs")}
	}
	if lost := r.hosts[at].lost; err == nil && lost != nil {
		result.Reply = job.ControlReply{State: job.ReplyRefused, Text: usererr.Reason(lost)}
	}
	return result, err
}

// claimsGoneTimeout is how long a job may take to release its claims after it has replied that it has
// ended. Its helpers release them one after the other.
const claimsGoneTimeout = time.Minute

// waitUntilGone waits until a job that has reported its end has released all its claims. If a claim remains,
// waitUntilGone changes result to say so.
func (r *reservation) waitUntilGone(ctx context.Context, t jobTarget, result *ControlResult) error {
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
			result.Node, result.StillHasClaim = node, true
			result.Reply = job.ControlReply{State: job.ReplyRefused, Text: fmt.Sprintf("job %s reported that it has ended, but %s", t, why)}
			return nil
		}
		if err := r.queue.AwaitChange(ctx, until); err != nil {
			return err
		}
	}
}

// remainingClaim returns a node on which the job has a claim, or may have one because the node's ledger (directory of
// claims) cannot be read. claim is a phrase that says which of these two cases applies. Both results are empty if there
// is no such node.
func remainingClaim(pages []job.LedgerListing, t jobTarget) (node, claim string) {
	for i, p := range pages {
		switch {
		case t.uidOn(i) < 0:
		case p.Err != "":
			return p.Node, "the claims on this host cannot be read: " + p.Err
		case slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.isClaimOf(i, c) }):
			return p.Node, "the job still uses CPUs on this host"
		}
	}
	return "", ""
}

// Status returns the claims of all jobs on the candidates, as Ledgers does, and asks one job for the states of its
// ranks. result contains these states if the user may see them. Otherwise result is zero. If several users have claims
// under this job ID, no job is asked.
func Status(ctx context.Context, req job.Request, env Env, ref job.JobRef) (pages []job.LedgerListing, result ControlResult, err error) {
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
		result.Job = t.Job
		if several != nil {
			r.env.Report(several.Text + "; " + several.Remedy)
		}
		if several != nil || !t.isFound() {
			return nil
		}
		if pages, err = r.readLedgers(ctx, &t); err != nil || ranksReported(pages) >= jobSize(pages, t) {
			return err
		}
		result, err = r.controlJob(ctx, pages, t, job.ControlRequest{Verb: job.VerbStatus})
		var first []job.LedgerListing // the job's own states come first: they say more than the kernel's
		for _, s := range result.Reply.Ranks {
			first = append(first, job.LedgerListing{Node: s.Node, States: []job.RankState{s.RankState}})
		}
		pages = append(first, pages...)
		return err
	})
	return pages, result, err
}

// Stacks returns the claims of all jobs on the candidates, as Ledgers does, and the stacks of one job's
// ranks. args are the arguments of the request. If the job is on no node, result.Node is empty.
func Stacks(ctx context.Context, req job.Request, env Env, ref job.JobRef, args []string) (pages []job.LedgerListing, result ControlResult, err error) {
	req.TimeLimits.Start = statusTimeout
	err = withHelpers(ctx, req, env, func(ctx context.Context, r *reservation) (err error) {
		r.reportSkipped()
		var t jobTarget
		if pages, t, err = r.findInLedgers(ctx, ref, false); err != nil {
			return err
		}
		if isQueued(pages, t) {
			return stillQueuedError(t.Job)
		}
		result, err = r.controlJob(ctx, pages, t, job.ControlRequest{Verb: job.VerbStacks, Args: args})
		return err
	})
	return pages, result, err
}

// controlJob sends a request to a job through one of its nodes.
func (r *reservation) controlJob(ctx context.Context, pages []job.LedgerListing, t jobTarget, request job.ControlRequest) (result ControlResult, err error) {
	request.Job, request.Since = t.Job, time.Now()
	result.Job = t.Job
	i, hasRanks := pageToAsk(pages, t)
	if i < 0 {
		return result, nil
	}
	if result.Node = pages[i].Node; !hasRanks {
		result.Reply = job.ControlReply{State: job.ReplyRefused, Text: fmt.Sprintf("job %s has no rank on this host, which is only a standby node; give a host with ranks of the job", request.Job)}
		return result, nil
	}
	request.Owner = t.uidOn(i)
	m := &wire.ControlRequest{ID: "1", Ledger: r.req.Queue.LedgerDir, Request: request} // the only one on this connection
	reply, err := callOne(ctx, r, replyTimeoutFor(request.Verb), r.hosts[i], m)
	if reply != nil {
		result.Reply = job.ControlReply{Job: request.Job, State: reply.State, Text: reply.Text, Ranks: reply.Ranks, Stacks: &reply.Stacks}
	}
	if lost := r.hosts[i].lost; err == nil && result.Reply.State == "" && lost != nil {
		result.Reply = job.ControlReply{State: job.ReplyRefused, Text: usererr.Reason(lost)}
	}
	return result, err
}

// pageToAsk returns the index in pages of the node that receives a request for a job. This is the first node on which
// the job runs ranks. If there is none, it is a standby node of the job. hasRanks is then false: such a node cannot
// forward the request. pageToAsk returns -1 if the job has no claim on any node.
func pageToAsk(pages []job.LedgerListing, t jobTarget) (i int, hasRanks bool) {
	for _, hasRanks := range []bool{true, false} {
		for i, p := range pages {
			if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.isClaimOf(i, c) && (!hasRanks || c.IdleReason != job.IdleStandby) }) {
				return i, hasRanks
			}
		}
	}
	return -1, false
}

// ranksReported counts the ranks whose state a helper has reported. It does not count ranks whose state is
// known only from the kernel.
func ranksReported(pages []job.LedgerListing) int {
	ranks := make(map[int]bool)
	for _, p := range pages {
		for _, s := range p.States {
			ranks[s.Rank] = s.Phase != "alive"
		}
	}
	return len(slices.DeleteFunc(slices.Collect(maps.Keys(ranks)), func(r int) bool { return !ranks[r] }))
}

// jobSize returns the job's number of ranks according to its claims. It returns 0 if the job has no claims.
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

// maxListing returns how many bytes each of several hosts may send when it lists its ledger (directory of
// claims). Without this limit, a user could exhaust the memory of everybody who lists jobs, by writing long
// entries on all hosts.
func maxListing(hosts int) int {
	const all, least = 256 << 20, 64 << 10
	return max(all/max(hosts, 1), least)
}

// reportNotices reports to the user which claims are missing from the listings of claims.
func (r *reservation) reportNotices(pages []job.LedgerListing) {
	for _, p := range pages {
		if p.Notice != "" {
			r.env.Report(p.Node + ": " + p.Notice)
		}
	}
}

// readLedgers reads the ledgers (directories of claims) of all candidates, in the order of the candidate list. If
// target is not nil, the listings include the states of the target job's ranks.
func (r *reservation) readLedgers(ctx context.Context, target *jobTarget) (pages []job.LedgerListing, err error) {
	read, lists := make(map[*host]job.LedgerListing), make(map[*host]*wire.ListLedger)
	for i, n := range r.hosts {
		lists[n] = &wire.ListLedger{Ledger: r.req.Queue.LedgerDir, MaxBytes: maxListing(len(r.hosts))}
		if target != nil && target.uidOn(i) >= 0 {
			lists[n].Job, lists[n].UID = target.Job, target.uidOn(i)
		}
	}
	err = call(ctx, r, queryTimeout, r.hosts, func(n *host) *wire.ListLedger { return lists[n] }, func(n *host, listed *wire.LedgerListed) {
		read[n] = job.LedgerListing{Node: n.def.Name, KeepsQueue: r.queue.IsQueueHost(n), ReaderUID: listed.UID,
			Claims: listed.Claims, Tickets: listed.Tickets, States: listed.States, Err: listed.Err, Notice: listed.Notice, Settings: listed.Settings}
	})
	for _, n := range r.hosts {
		page, ok := read[n]
		if !ok && n.lost != nil {
			page = job.LedgerListing{Node: n.def.Name, Err: usererr.Reason(n.lost)}
		}
		pages = append(pages, page)
	}
	return pages, err
}
