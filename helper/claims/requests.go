//go:build linux

package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// This file handles control requests (survive.md 7): it writes requests of our user to the ledger, and forwards to mpiexec the
// requests to our job.

// A jobRequests holds the control requests to the job of this session. Each request is sent to mpiexec after the first
// reply to the previous one. Several requests may be waiting for their final replies.
type jobRequests struct {
	receiving    bool
	waiting      []pendingRequest
	current      *pendingRequest                    // sent to mpiexec, which has not replied yet; nil: none
	accepted     map[string]*pendingRequest         // mpiexec works on them; by ID
	shownReplies map[*ledger.PostedFile]*time.Timer // all replies in the ledger; those with a timer are removed soon
	finalReplies []pendingRequest                   // requests with a final reply that the requester may not have read yet
}

// A pendingRequest is a request of an authorized user for which there is no final reply yet.
type pendingRequest struct {
	ledger.FoundRequest
	role  job.Role
	reply *ledger.PostedFile // nil: none yet
}

// These are the intervals and time limits for control requests to a running job.
const (
	replyPoll         = 50 * time.Millisecond // between two reads for a reply
	firstReplyTimeout = 10 * time.Second      // until the first reply
	replyShownFor     = 10 * time.Second      // how long a final reply is shown
	replySeenTimeout  = 5 * time.Second       // at the end of the session, for requesters who have not read the final reply
)

// These are the maximum sizes, in bytes, of replies. maxStatusBytes is for replies with the states and stacks of ranks.
const (
	maxReplyBytes  = 64 << 10
	maxStatusBytes = 4 << 20
)

// maxShownReplies is the maximum number of replies that are in the ledger at a time. When this number is reached,
// unauthorized requests get no reply. Each reply is a file of the current user, who may have no more than 10,000 files
// in the ledger.
const maxShownReplies = 256

// ReceiveRequests receives control requests to a job, on another goroutine, until the session ends. name is the path
// of the node's ledger, a directory in which requests are files.
func (w *Worker) ReceiveRequests(name string, id job.ID) {
	w.runTask(func() {
		dir, err := w.openLedger(name)
		if err != nil || w.requests.receiving {
			return // mpiexec has been informed of the error
		}
		w.requests.receiving, w.requests.accepted, w.requests.shownReplies = true, make(map[string]*pendingRequest), make(map[*ledger.PostedFile]*time.Timer)
		go func() {
			err := dir.WatchRequests(w.ctx, id, func(a ledger.FoundRequest) { w.runTask(func() { w.handleRequest(a) }) })
			if w.ctx.Err() == nil {
				w.inform(false, "cannot receive requests to this job, such as mpiexec --end: "+err.Error())
			}
		}()
	})
}

// SetHold adds a reason to keep the ranks stopped, or removes it if on is false. why is never HoldGang. While there is
// a reason, the claims show that the job is suspended. While mpiexec itself is stopped, requests are refused at once.
func (w *Worker) SetHold(why job.Hold, on bool) {
	w.runTask(func() {
		if on {
			w.holds[why] = true
		} else {
			delete(w.holds, why)
		}
		for _, groups := range []map[string]*ledger.HeldClaim{w.held, w.clusterHeld} {
			for _, held := range groups {
				w.showSuspended(held)
			}
		}
	})
}

// showSuspended makes a claim show whether the job is suspended.
func (w *Worker) showSuspended(held *ledger.HeldClaim) {
	if err := held.SetSuspended(len(w.holds) > 0); err != nil {
		w.inform(false, err.Error())
	}
}

// handleRequest checks whether the user may make a request. It queues the request for mpiexec, or refuses it.
func (w *Worker) handleRequest(a ledger.FoundRequest) {
	if a.Verb == job.VerbEvict {
		return // EvictedBy reads it when the signal comes
	}
	role, authorized := job.Authorize(a.UID, os.Geteuid(), nil)
	if !authorized {
		named, err := probe.ReadAdministrators(w.clusterFile)
		if err != nil {
			w.inform(false, "cannot read the list of administrators of this host: "+err.Error())
		}
		role, authorized = job.Authorize(a.UID, os.Geteuid(), named)
	}
	if !authorized && len(w.requests.shownReplies) >= maxShownReplies {
		return // other users make requests faster than replies expire
	}
	if !authorized {
		w.writeReply(&pendingRequest{FoundRequest: a}, job.ControlReply{State: job.ReplyRefused, Text: fmt.Sprintf("%s, because job %s belongs to user %s", job.NotAllowedText, a.Job, w.ledger.UserName(os.Geteuid()))})
		return
	}
	if w.holds[job.HoldLauncherStopped] {
		w.writeReply(&pendingRequest{FoundRequest: a, role: role}, job.ControlReply{State: job.ReplyRefused, Text: job.LauncherStoppedText + " (by ^Z or by a batch system)"})
		return
	}
	w.requests.waiting = append(w.requests.waiting, pendingRequest{FoundRequest: a, role: role})
	w.sendNextRequest()
}

// sendNextRequest sends the next request to mpiexec, unless mpiexec has not yet replied to the previous one. It skips
// requests whose requesters have died.
func (w *Worker) sendNextRequest() {
	for w.requests.current == nil && len(w.requests.waiting) > 0 {
		a := w.requests.waiting[0]
		w.requests.waiting = w.requests.waiting[1:]
		if !w.ledger.StillWaits(a.FoundRequest) {
			continue
		}
		w.requests.current = &a
		w.send(&wire.ControlRequest{ID: a.ID, Role: a.role, Request: a.ControlRequest})
	}
}

// handleReply writes a reply of mpiexec to a user's request into the node's ledger (directory of claims).
func (w *Worker) handleReply(m *wire.ControlReply) {
	a := w.requests.accepted[m.ID]
	switch open := w.requests.current; {
	case a != nil:
		delete(w.requests.accepted, m.ID)
	case open != nil && open.ID == m.ID:
		a, w.requests.current = open, nil
	default:
		return
	}
	if m.State.IsKnown() {
		reply := job.ControlReply{State: m.State, Text: m.Text, Ranks: m.Ranks}
		if a.Verb == job.VerbStacks {
			reply.Stacks = &m.Stacks
		}
		w.writeReply(a, reply)
	}
	if m.State == job.ReplyAccepted {
		w.requests.accepted[m.ID] = a
	}
	w.sendNextRequest()
}

// writeReply writes a reply to a request into the node's ledger (directory of claims). It replaces an earlier
// reply to the same request.
func (w *Worker) writeReply(a *pendingRequest, answer job.ControlReply) {
	var err error
	answer.Job, answer.UID = a.Job, os.Geteuid()
	if a.reply == nil {
		a.reply, err = w.ledger.PostReply(a.ID, answer)
	} else {
		delete(w.requests.shownReplies, a.reply)
		a.reply, err = w.ledger.ReplaceReply(a.reply, answer)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) { // EEXIST: another helper of the job has replied
		w.inform(false, fmt.Sprintf("cannot reply to the %q request of user %s: %v", a.Verb, a.User, err))
	}
	if posted := a.reply; posted != nil {
		w.requests.noteReply(posted)
		if answer.State.IsFinal() {
			if a.role != "" { // the end of the session does not wait for users who are not authorized
				w.requests.finalReplies = append(slices.DeleteFunc(w.requests.finalReplies, func(a pendingRequest) bool { return !w.ledger.StillWaits(a.FoundRequest) }), *a)
			}
			w.requests.shownReplies[posted] = time.AfterFunc(replyShownFor, func() {
				w.runTask(func() { posted.Drop(); delete(w.requests.shownReplies, posted) })
			})
		}
	}
}

// noteReply records a reply that was written, so that it is removed at the end of the session.
func (a *jobRequests) noteReply(posted *ledger.PostedFile) {
	if _, known := a.shownReplies[posted]; !known {
		a.shownReplies[posted] = nil
	}
}

// awaitRepliesSeen waits until requesters have read their final replies, but no longer than replySeenTimeout.
// This matters because a request may itself end the session.
func (w *Worker) awaitRepliesSeen() {
	waits := func(a pendingRequest) bool { return w.ledger.StillWaits(a.FoundRequest) }
	for end := time.Now().Add(replySeenTimeout); slices.ContainsFunc(w.requests.finalReplies, waits) && time.Now().Before(end); {
		time.Sleep(replyPoll / 5)
	}
}

// removeReplies removes all replies of this session from the node's ledger (directory of claims).
func (w *Worker) removeReplies() {
	for posted, timer := range w.requests.shownReplies {
		if timer != nil {
			timer.Stop()
		}
		posted.Drop()
	}
	clear(w.requests.shownReplies)
}

// submitRequest writes a request of the current user to another job into the ledger (the node's directory of
// claims and requests), without blocking. When the reply arrives, submitRequest sends it to mpiexec.
func (w *Worker) submitRequest(m *wire.ControlRequest) {
	dir, err := w.openLedger(m.Ledger)
	if err != nil {
		w.send(&wire.ControlReply{ID: m.ID, State: job.ReplyRefused, Text: err.Error()})
		return
	}
	go func() {
		answer := awaitReply(w.ctx, dir, m.Request)
		answer.ID = m.ID
		answer.Truncate()
		w.send(answer)
	}()
}

// awaitReply writes a request into the ledger (the node's directory of claims and requests) and waits for the final
// reply of the job's owner. If there is no such reply in time, it returns a reply that says why. Replies by other users
// who use the same job ID are ignored.
func awaitReply(ctx context.Context, dir *ledger.Dir, a job.ControlRequest) *wire.ControlReply {
	refused := func(text string) *wire.ControlReply { return &wire.ControlReply{State: job.ReplyRefused, Text: text} }
	of := job.Key{Job: a.Job, UID: a.Owner}
	if !dir.HasClaim(of) {
		return refused(fmt.Sprintf("job %s does not run on this node", a.Job))
	}
	a.UID, a.User = os.Geteuid(), dir.UserName(os.Geteuid())
	posted, err := dir.PostRequest(a)
	if err != nil {
		return refused(err.Error())
	}
	defer posted.Drop()
	most := maxReplyBytes
	listing := a.Verb == job.VerbStatus || a.Verb == job.VerbStacks
	if listing {
		most = maxStatusBytes
	}
	last, deadline := job.ControlReply{}, time.Now().Add(firstReplyTimeout)
	for look := 0; ; look++ {
		now, found := dir.ReadReply(posted.ID, a.Owner, most)
		switch {
		case found && now.State.IsFinal():
			reply := &wire.ControlReply{State: now.State, Text: now.Text, Ranks: now.Ranks}
			if now.Stacks != nil {
				reply.Stacks = *now.Stacks
			}
			return reply
		case found && !listing: // such requests have no first reply
			last = now
		case last.State != "", look%4 == 3 && !dir.HasClaim(of):
			return endedReply(a)
		case time.Now().After(deadline):
			return refused(fmt.Sprintf("%s within %v", job.NoAnswerText, firstReplyTimeout))
		}
		select {
		case <-ctx.Done():
			return refused("interrupted")
		case <-time.After(replyPoll):
		}
	}
}

// endedReply returns the reply to a request if the job has ended without a final reply to it. The reply reports success
// if the request was to end the job.
func endedReply(a job.ControlRequest) *wire.ControlReply {
	if a.Verb == job.VerbEnd {
		return &wire.ControlReply{State: job.ReplyDone, Text: "the job has ended"}
	}
	return &wire.ControlReply{State: job.ReplyRefused, Text: fmt.Sprintf("job %s ended before it could reply", a.Job)}
}
