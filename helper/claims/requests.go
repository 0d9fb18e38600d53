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

// This file has a word with jobs (survive.md 7): it shows what our user asks, and takes to mpiexec what
// others ask of our job.

// A jobRequests is what others want of our job. Mpiexec judges one at a time; what it does may take long.
type jobRequests struct {
	receiving      bool
	mpiexecStopped bool // mpiexec is, and cannot answer
	waiting        []pendingRequest
	current        *pendingRequest                    // has no answer yet
	accepted       map[string]*pendingRequest         // are being done, by their names
	shownReplies   map[*ledger.PostedFile]*time.Timer // answers that are shown for a while yet
	finalReplies   []pendingRequest                   // whose last word was given: they may not have seen it yet
}

// A pendingRequest ask is one of somebody who is obeyed.
type pendingRequest struct {
	ledger.FoundRequest
	right job.Role
	reply *ledger.PostedFile // nil: there was none yet
}

// Times of asks.
const (
	replyPoll         = 50 * time.Millisecond // between two looks for an answer
	firstReplyTimeout = 10 * time.Second      // for the first word
	replyShownFor     = 10 * time.Second      // behind the last one
	replySeenTimeout  = 5 * time.Second       // at the end of the session, for who has not seen the last one yet
)

// What is read of an answer, in bytes, each time that somebody looks.
const (
	maxReplyBytes  = 64 << 10
	maxStatusBytes = 4 << 20
)

// maxShownReplies is how many answers may be shown while those who are not obeyed are answered: the answers are files of our own user,
// of whom no more than 10,000 count.
const maxShownReplies = 256

// ReceiveRequests begins to hear what is asked of our job, until the session ends.
func (w *Worker) ReceiveRequests(name string, id job.ID) {
	w.runTask(func() {
		dir, err := w.openLedger(name)
		if err != nil || w.requests.receiving {
			return // mpiexec has heard of that
		}
		w.requests.receiving, w.requests.accepted, w.requests.shownReplies = true, make(map[string]*pendingRequest), make(map[*ledger.PostedFile]*time.Timer)
		go func() {
			err := dir.WatchRequests(w.ctx, id, func(a ledger.FoundRequest) { w.runTask(func() { w.handleRequest(a) }) })
			if w.ctx.Err() == nil {
				w.inform(false, "what is asked of the job goes unheard: "+err.Error())
			}
		}()
	})
}

// SetStopped notes whether mpiexec is stopped. What is asked meanwhile is refused at once.
func (w *Worker) SetStopped(on bool) { w.runTask(func() { w.requests.mpiexecStopped = on }) }

// handleRequest judges who asks, and has mpiexec do it in its turn.
func (w *Worker) handleRequest(a ledger.FoundRequest) {
	if a.Verb == job.VerbEvict {
		return // EvictedBy reads it when the signal comes
	}
	right, obeyed := job.Authorize(a.UID, os.Geteuid(), nil)
	if !obeyed {
		named, err := probe.ReadAdministrators(w.clusterFile)
		if err != nil {
			w.inform(false, "nobody is an administrator here: "+err.Error())
		}
		right, obeyed = job.Authorize(a.UID, os.Geteuid(), named)
	}
	if !obeyed && len(w.requests.shownReplies) >= maxShownReplies {
		return // other users ask faster than answers go
	}
	if !obeyed {
		w.writeReply(&pendingRequest{FoundRequest: a}, job.ControlReply{State: job.ReplyRefused, Text: job.NotAllowedText + "job " + string(a.Job) + " is of " + w.ledger.UserName(os.Geteuid())})
		return
	}
	if w.requests.mpiexecStopped {
		w.writeReply(&pendingRequest{FoundRequest: a, right: right}, job.ControlReply{State: job.ReplyRefused, Text: job.LauncherStoppedText + " (^Z, or a batch system)"})
		return
	}
	w.requests.waiting = append(w.requests.waiting, pendingRequest{FoundRequest: a, right: right})
	w.sendNextRequest()
}

// sendNextRequest takes the next ask to mpiexec, unless one is there. Who was killed asks nothing any more.
func (w *Worker) sendNextRequest() {
	for w.requests.current == nil && len(w.requests.waiting) > 0 {
		a := w.requests.waiting[0]
		w.requests.waiting = w.requests.waiting[1:]
		if !w.ledger.StillWaits(a.FoundRequest) {
			continue
		}
		w.requests.current = &a
		w.send(&wire.ControlRequest{ID: a.ID, Role: a.right, Request: a.ControlRequest})
	}
}

// handleReply shows what mpiexec says to the ask that is with it.
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
		w.writeReply(a, job.ControlReply{State: m.State, Text: m.Text, Ranks: m.Ranks})
	}
	if m.State == job.ReplyAccepted {
		w.requests.accepted[m.ID] = a
	}
	w.sendNextRequest()
}

// writeReply shows an answer, in the place of the one before.
func (w *Worker) writeReply(a *pendingRequest, answer job.ControlReply) {
	var err error
	answer.Job, answer.UID = a.Job, os.Geteuid()
	if a.reply == nil {
		a.reply, err = w.ledger.PostReply(a.ID, answer)
	} else {
		delete(w.requests.shownReplies, a.reply)
		a.reply, err = w.ledger.ReplaceReply(a.reply, answer)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) { // then another helper of the job has answered
		w.inform(false, fmt.Sprintf("no answer to %s of %s: %v", a.Verb, a.User, err))
	}
	if slip := a.reply; slip != nil {
		w.requests.noteReply(slip)
		if answer.State.IsFinal() {
			if a.right != "" { // whoever is refused has nobody wait for him at the end of the session
				w.requests.finalReplies = append(slices.DeleteFunc(w.requests.finalReplies, func(a pendingRequest) bool { return !w.ledger.StillWaits(a.FoundRequest) }), *a)
			}
			w.requests.shownReplies[slip] = time.AfterFunc(replyShownFor, func() {
				w.runTask(func() { slip.Drop(); delete(w.requests.shownReplies, slip) })
			})
		}
	}
}

// noteReply notes an answer, so that it goes with us.
func (a *jobRequests) noteReply(slip *ledger.PostedFile) {
	if _, known := a.shownReplies[slip]; !known {
		a.shownReplies[slip] = nil
	}
}

// awaitRepliesSeen gives who waits for an answer a moment to see the last word: what ends the session may be what was asked for.
func (w *Worker) awaitRepliesSeen() {
	waits := func(a pendingRequest) bool { return w.ledger.StillWaits(a.FoundRequest) }
	for end := time.Now().Add(replySeenTimeout); slices.ContainsFunc(w.requests.finalReplies, waits) && time.Now().Before(end); {
		time.Sleep(replyPoll / 5)
	}
}

// removeReplies takes away what we have answered.
func (w *Worker) removeReplies() {
	for slip, timer := range w.requests.shownReplies {
		if timer != nil {
			timer.Stop()
		}
		slip.Drop()
	}
	clear(w.requests.shownReplies)
}

// submitRequest shows an ask of our user's, and tells what comes of it. Both wait for others, so not here.
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

// awaitReply asks, and waits for the last word of the job's owner. What others answer who claim the same job ID does not count.
func awaitReply(ctx context.Context, dir *ledger.Dir, a job.ControlRequest) *wire.ControlReply {
	refused := func(text string) *wire.ControlReply { return &wire.ControlReply{State: job.ReplyRefused, Text: text} }
	of := job.Key{Job: a.Job, UID: a.Owner}
	if !dir.HasClaim(of) {
		return refused(fmt.Sprintf("there is no job %s on this node", a.Job))
	}
	a.UID, a.User = os.Geteuid(), dir.UserName(os.Geteuid())
	slip, err := dir.PostRequest(a)
	if err != nil {
		return refused(err.Error())
	}
	defer slip.Drop()
	most := maxReplyBytes
	if a.Verb == job.VerbStatus {
		most = maxStatusBytes
	}
	last, patience := job.ControlReply{}, time.Now().Add(firstReplyTimeout)
	for look := 0; ; look++ {
		now, found := dir.ReadReply(slip.ID, a.Owner, most)
		switch {
		case found && now.State.IsFinal():
			return &wire.ControlReply{State: now.State, Text: now.Text, Ranks: now.Ranks}
		case found && a.Verb != job.VerbStatus: // that has no first word
			last = now
		case last.State != "", look%4 == 3 && !dir.HasClaim(of):
			return endedReply(a, last)
		case time.Now().After(patience):
			return refused(fmt.Sprintf("%s%s for %v", job.NoAnswerText, a.Job, firstReplyTimeout))
		}
		select {
		case <-ctx.Done():
			return refused("interrupted")
		case <-time.After(replyPoll):
		}
	}
}

// endedReply is what is told of a job that has gone while it was asked: of one that was to end it is the
// last word.
func endedReply(a job.ControlRequest, last job.ControlReply) *wire.ControlReply {
	if a.Verb == job.VerbEnd {
		return &wire.ControlReply{State: job.ReplyDone, Text: "it has ended"}
	}
	return &wire.ControlReply{State: job.ReplyRefused, Text: fmt.Sprintf("job %s has ended meanwhile", a.Job)}
}
