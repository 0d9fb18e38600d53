package reserve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/preempt"
	"remshell/plan"
	"remshell/text"
	"remshell/wire"
)

/*
Where a request has no plan whose turn it is, jobs may give way to it whose users allow that (survive.md SV-33):

	tryOnce --no plan--> preempt.Choose --> Ask "yield" --> each job, by a node of its own
	  ^  |                                                    |
	  |  |                  a claim has come or gone, <-------+--> refused, or late: not asked again for a while
	  |  |                  or it has given way
	  |  |                          |
	  |  '--no plan--> wait <-------'
	  |                 |
	  '-----------------'   at each change: room may come up elsewhere. Then what is asked is taken back: Unask.

The gate is open while it waits, since that may take as long as a checkpoint; who is in the queue keeps his place there, and
is its head all the time: nobody passes.
*/
type yielders struct {
	spared preempt.Grudges[job.Whose] // jobs of which nothing is wanted, as they were asked before
	asked  []*askedOne                // jobs that were asked, and may give way yet
	stayed []string                   // the last of those that did not, and why, in words
	more   int                        // and how many before these
	until  time.Time                  // how long who does not wait may ask; zero: he has not begun
	rounds int                        // how often somebody was asked
}

// An askedOne is a job that was asked to give way.
type askedOne struct {
	preempt.Victim
	host     *host
	question *wire.Ask
	until    time.Time // when it is to have given way
	nodes    []string  // the names of Victim.Nodes
	refused  string    // why it does not, by its own word; empty: it has said nothing of that kind
	answered bool
}

// mostRounds is after how many somebody gives up who does not wait, as jobs come and go.
const mostRounds = 10

// makeRoom has jobs give way to a request that failed so, and reports whether another attempt is worth while. It waits for that,
// unless the request stands in the queue and waits there. An error ends the request.
func (r *reservation) makeRoom(ctx context.Context, failed *plan.Error) (again bool, err error) {
	y := &r.yielders
	given, err := r.reckon(ctx, time.Now())
	if given || err != nil {
		return given, err
	}
	at := preempt.Standing{Ahead: r.snap.Ahead, Passes: !r.queue.Orders(), Granted: r.req.RM.ID() != "", Gives: r.req.Preemptible != ""}
	waits, asks := failed.Position > 0, preempt.Asks(at, failed)
	if asks && len(y.asked) == 0 {
		if err := r.askOthers(ctx, waits); err != nil {
			return false, err
		}
	}
	switch {
	case len(y.asked) == 0, !asks && !waits:
		failed.Text += y.told()
		return false, nil
	case waits: // the queue tells of changes
		return false, nil
	}
	r.watchClaims()
	return true, r.queue.AwaitChangeUntil(ctx, y.next())
}

// askOthers asks jobs to give way. Who does not wait asks for no longer than one may take.
func (r *reservation) askOthers(ctx context.Context, waits bool) error {
	y, now := &r.yielders, time.Now()
	if !waits && (y.rounds == mostRounds || !y.until.IsZero() && !now.Before(y.until)) {
		return nil
	}
	fits := func(snap job.Snapshot) bool {
		_, err := makePlan(ctx, r.req, snap)
		return err == nil
	}
	victims := preempt.Choose(r.snap, fits, func(v preempt.Victim) bool { return !y.spared.Holds(v.Whose(), now).IsZero() })
	if len(victims) == 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	until := now.Add(giveWayTime(r.req))
	switch {
	case waits:
	case y.until.IsZero():
		y.until = until
	default:
		until = y.until
	}
	y.rounds++
	var names []string
	for _, v := range victims {
		names = append(names, v.String())
	}
	r.env.Say("asking " + strings.Join(names, ", ") + " to give way")
	for _, v := range victims {
		r.askOne(v, now, until)
	}
	return nil
}

// askOne asks a job by the first of its nodes that can be asked. It is not asked again for a while, whatever comes of it.
func (r *reservation) askOne(v preempt.Victim, now, until time.Time) {
	y := &r.yielders
	y.spared.Note(v.Whose(), now)
	a := &askedOne{Victim: v, until: until}
	for _, n := range v.Nodes {
		if a.nodes = append(a.nodes, r.seen[n].def.Name); a.host == nil && r.seen[n].lost == nil {
			a.host = r.seen[n]
		}
	}
	if a.host == nil {
		y.stays(a, "none of its nodes answers")
		return
	}
	a.question = r.question(job.Ask{Job: v.Job, Owner: v.UID, Verb: job.AskYield, Args: preempt.Words(r.req.Job), Since: now})
	a.host.Send(a.question)
	y.asked = append(y.asked, a)
}

// giveWayTime is how long others may take to give way: to write a checkpoint, and to end.
func giveWayTime(req job.Request) time.Duration {
	grace := req.Ckpt.Grace
	if grace == 0 {
		grace = job.DefaultCheckpointGrace
	}
	return grace + req.Limits.Grace
}

// answered takes the last word of a job that was asked to give way.
func (r *reservation) answered(from *host, m *wire.Answer) {
	for _, a := range r.yielders.asked {
		if a.host == from && a.question.ID == m.ID {
			if a.answered = true; m.State != job.AskDone {
				a.refused = m.Text
			}
			r.queue.News()
		}
	}
}

// reckon looks who of those that were asked has given way, and leaves out who does not, or not in time.
func (r *reservation) reckon(ctx context.Context, now time.Time) (given bool, err error) {
	y := &r.yielders
	if len(y.asked) == 0 {
		return false, nil
	}
	pages, err := r.pages(ctx, nil)
	if err != nil {
		return false, err
	}
	y.asked = slices.DeleteFunc(y.asked, func(a *askedOne) bool {
		holds, unread := a.holds(pages)
		switch {
		case !holds:
			r.takeBack(a)
			given = true
		case a.refused != "":
			r.env.Say(fmt.Sprintf("job %s does not give way: %s", a.Job, a.refused))
			y.stays(a, a.refused)
		case !a.answered && a.host.lost != nil:
			y.stays(a, "lost contact with "+a.host.def.Name)
		case !now.Before(a.until) && unread != "":
			y.stays(a, "what it claims cannot be read: "+unread)
			r.takeBack(a)
		case !now.Before(a.until):
			y.stays(a, "not within "+text.Span(a.until.Sub(a.question.Ask.Since)))
			r.takeBack(a)
		default:
			return false
		}
		return true
	})
	return given, nil
}

// holds reports whether a job has CPUs of some node still, but for those in reserve, which nobody asks for, as far as that could
// be read; unread is what could not.
func (a *askedOne) holds(pages []job.Page) (holds bool, unread string) {
	has := func(c job.Claim) bool { return !c.Suspended && c.Resting != job.Spare && c.Whose() == a.Whose() }
	for _, p := range pages {
		switch {
		case slices.ContainsFunc(p.Claims, has):
			return true, ""
		case p.Err != "" && slices.Contains(a.nodes, p.Node):
			unread = p.Node + ": " + p.Err
		}
	}
	return unread != "", unread
}

// takeBack has nobody do any more what a job was asked for and has not done.
func (r *reservation) takeBack(a *askedOne) {
	if !a.answered && a.host.lost == nil {
		a.host.GiveUp(a.question)
		a.host.Send(&wire.Unask{ID: a.question.ID})
	}
}

// takeAllBack is takeBack for all that is asked: the request has a place, or shall have none.
func (r *reservation) takeAllBack() {
	for _, a := range r.yielders.asked {
		r.takeBack(a)
	}
	r.yielders.asked = nil
}

// mostStayed is how many jobs that did not give way an error names.
const mostStayed = 4

// stays notes that a job does not give way.
func (y *yielders) stays(a *askedOne, why string) {
	if len(y.stayed) == mostStayed {
		y.stayed = slices.Delete(y.stayed, 0, 1)
		y.more++
	}
	y.stayed = append(y.stayed, fmt.Sprintf("%v: %s", a.Victim, why))
}

// told is who did not give way, for the error of a request that has no place for it.
func (y *yielders) told() string {
	if len(y.stayed) == 0 {
		return ""
	}
	words := "; asked to give way, and did not: " + strings.Join(y.stayed, "; ")
	if y.more > 0 {
		words += fmt.Sprintf("; and %d more", y.more)
	}
	return words
}

// next is when the first of those that were asked is late.
func (y *yielders) next() time.Time {
	return slices.MinFunc(y.asked, func(a, b *askedOne) int { return a.until.Compare(b.until) }).until
}
