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

// An asks is what others want of our job. Mpiexec judges one at a time; what it does may take long.
type asks struct {
	hearing bool
	stopped bool // mpiexec is, and cannot answer
	waiting []heard
	open    *heard                       // has no answer yet
	taken   map[string]*heard            // are being done, by their names
	given   map[*ledger.Slip]*time.Timer // answers that are shown for a while yet
	last    []heard                      // whose last word was given: they may not have seen it yet
}

// A heard ask is one of somebody who is obeyed.
type heard struct {
	ledger.FoundAsk
	right  job.Right
	answer *ledger.Slip // nil: there was none yet
}

// Times of asks.
const (
	answerLook  = 50 * time.Millisecond // between two looks for an answer
	answerTime  = 10 * time.Second      // for the first word
	answerStays = 10 * time.Second      // behind the last one
	answerSeen  = 5 * time.Second       // at the end of the session, for who has not seen the last one yet
)

// What is read of an answer, in bytes, each time that somebody looks.
const (
	maxAnswer = 64 << 10
	maxStatus = 4 << 20
)

// mostGiven is how many answers may be shown while those who are not obeyed are answered: the answers are files of our own user,
// of whom no more than 10,000 count.
const mostGiven = 256

// Hear begins to hear what is asked of our job, until the session ends.
func (w *Worker) Hear(name string, id job.ID) {
	w.do(func() {
		dir, err := w.open(name)
		if err != nil || w.asks.hearing {
			return // mpiexec has heard of that
		}
		w.asks.hearing, w.asks.taken, w.asks.given = true, make(map[string]*heard), make(map[*ledger.Slip]*time.Timer)
		go func() {
			err := dir.HearAsks(w.ctx, id, func(a ledger.FoundAsk) { w.do(func() { w.asked(a) }) })
			if w.ctx.Err() == nil {
				w.inform(false, "what is asked of the job goes unheard: "+err.Error())
			}
		}()
	})
}

// Stopped notes whether mpiexec is stopped. What is asked meanwhile is refused at once.
func (w *Worker) Stopped(on bool) { w.do(func() { w.asks.stopped = on }) }

// asked judges who asks, and has mpiexec do it in its turn.
func (w *Worker) asked(a ledger.FoundAsk) {
	if a.Verb == job.AskEvict {
		return // EvictedBy reads it when the signal comes
	}
	right, obeyed := job.Obeyed(a.UID, os.Geteuid(), nil)
	if !obeyed {
		named, err := probe.Administrators(w.cluster)
		if err != nil {
			w.inform(false, "nobody is an administrator here: "+err.Error())
		}
		right, obeyed = job.Obeyed(a.UID, os.Geteuid(), named)
	}
	if !obeyed && len(w.asks.given) >= mostGiven {
		return // other users ask faster than answers go
	}
	if !obeyed {
		w.say(&heard{FoundAsk: a}, job.Answer{State: job.AskRefused, Text: job.NotAllowedText + "job " + string(a.Job) + " is of " + w.ledger.UserName(os.Geteuid())})
		return
	}
	if w.asks.stopped {
		w.say(&heard{FoundAsk: a, right: right}, job.Answer{State: job.AskRefused, Text: job.StoppedText + " (^Z, or a batch system)"})
		return
	}
	w.asks.waiting = append(w.asks.waiting, heard{FoundAsk: a, right: right})
	w.nextAsk()
}

// nextAsk takes the next ask to mpiexec, unless one is there. Who was killed asks nothing any more.
func (w *Worker) nextAsk() {
	for w.asks.open == nil && len(w.asks.waiting) > 0 {
		a := w.asks.waiting[0]
		w.asks.waiting = w.asks.waiting[1:]
		if !w.ledger.Waits(a.FoundAsk) {
			continue
		}
		w.asks.open = &a
		w.send(&wire.Ask{ID: a.ID, Right: a.right, Ask: a.Ask})
	}
}

// answered shows what mpiexec says to the ask that is with it.
func (w *Worker) answered(m *wire.Answer) {
	a := w.asks.taken[m.ID]
	switch open := w.asks.open; {
	case a != nil:
		delete(w.asks.taken, m.ID)
	case open != nil && open.ID == m.ID:
		a, w.asks.open = open, nil
	default:
		return
	}
	if m.State.Known() {
		w.say(a, job.Answer{State: m.State, Text: m.Text, Ranks: m.Ranks})
	}
	if m.State == job.AskTaken {
		w.asks.taken[m.ID] = a
	}
	w.nextAsk()
}

// say shows an answer, in the place of the one before.
func (w *Worker) say(a *heard, answer job.Answer) {
	var err error
	answer.Job, answer.UID = a.Job, os.Geteuid()
	if a.answer == nil {
		a.answer, err = w.ledger.Respond(a.ID, answer)
	} else {
		delete(w.asks.given, a.answer)
		a.answer, err = w.ledger.Rewrite(a.answer, answer)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) { // then another helper of the job has answered
		w.inform(false, fmt.Sprintf("no answer to %s of %s: %v", a.Verb, a.User, err))
	}
	if slip := a.answer; slip != nil {
		w.asks.keep(slip)
		if answer.State.Final() {
			if a.right != "" { // whoever is refused has nobody wait for him at the end of the session
				w.asks.last = append(slices.DeleteFunc(w.asks.last, func(a heard) bool { return !w.ledger.Waits(a.FoundAsk) }), *a)
			}
			w.asks.given[slip] = time.AfterFunc(answerStays, func() {
				w.do(func() { slip.Drop(); delete(w.asks.given, slip) })
			})
		}
	}
}

// keep notes an answer, so that it goes with us.
func (a *asks) keep(slip *ledger.Slip) {
	if _, known := a.given[slip]; !known {
		a.given[slip] = nil
	}
}

// awaitSeen gives who waits for an answer a moment to see the last word: what ends the session may be what was asked for.
func (w *Worker) awaitSeen() {
	waits := func(a heard) bool { return w.ledger.Waits(a.FoundAsk) }
	for end := time.Now().Add(answerSeen); slices.ContainsFunc(w.asks.last, waits) && time.Now().Before(end); {
		time.Sleep(answerLook / 5)
	}
}

// dropAsks takes away what we have answered.
func (w *Worker) dropAsks() {
	for slip, timer := range w.asks.given {
		if timer != nil {
			timer.Stop()
		}
		slip.Drop()
	}
	clear(w.asks.given)
}

// show shows an ask of our user's, and tells what comes of it. Both wait for others, so not here.
func (w *Worker) show(m *wire.Ask) {
	dir, err := w.open(m.Ledger)
	if err != nil {
		w.send(&wire.Answer{ID: m.ID, State: job.AskRefused, Text: err.Error()})
		return
	}
	go func() {
		answer := awaitAnswer(w.ctx, dir, m.Ask)
		answer.ID = m.ID
		answer.Fit()
		w.send(answer)
	}()
}

// awaitAnswer asks, and waits for the last word of the job's owner. What others answer who claim the same job ID does not count.
func awaitAnswer(ctx context.Context, dir *ledger.Dir, a job.Ask) *wire.Answer {
	refused := func(text string) *wire.Answer { return &wire.Answer{State: job.AskRefused, Text: text} }
	of := job.Whose{Job: a.Job, UID: a.Owner}
	if !dir.Claimed(of) {
		return refused(fmt.Sprintf("there is no job %s on this node", a.Job))
	}
	a.UID, a.User = os.Geteuid(), dir.UserName(os.Geteuid())
	slip, err := dir.Ask(a)
	if err != nil {
		return refused(err.Error())
	}
	defer slip.Drop()
	most := maxAnswer
	if a.Verb == job.AskStatus {
		most = maxStatus
	}
	last, patience := job.Answer{}, time.Now().Add(answerTime)
	for look := 0; ; look++ {
		now, found := dir.Answer(slip.ID, a.Owner, most)
		switch {
		case found && now.State.Final():
			return &wire.Answer{State: now.State, Text: now.Text, Ranks: now.Ranks}
		case found && a.Verb != job.AskStatus: // that has no first word
			last = now
		case last.State != "", look%4 == 3 && !dir.Claimed(of):
			return ended(a, last)
		case time.Now().After(patience):
			return refused(fmt.Sprintf("%s%s for %v", job.NoAnswerText, a.Job, answerTime))
		}
		select {
		case <-ctx.Done():
			return refused("interrupted")
		case <-time.After(answerLook):
		}
	}
}

// ended is what is told of a job that has gone while it was asked: of one that was to end it is the
// last word.
func ended(a job.Ask, last job.Answer) *wire.Answer {
	if a.Verb == job.AskEnd {
		return &wire.Answer{State: job.AskDone, Text: "it has ended"}
	}
	return &wire.Answer{State: job.AskRefused, Text: fmt.Sprintf("job %s has ended meanwhile", a.Job)}
}
