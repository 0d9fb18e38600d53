package reserve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/preempt"
	"remshell/plan"
	"remshell/wire"
)

/*
Where a request has no plan whose turn it is, jobs may give way to it whose users allow that (survive.md SV-33):

	tryOnce --no plan--> preempt.Choose --> Ask "yield" --> each job, by a node of its own
	   ^                                                      |
	   '--- their claims are gone <--- suspended, or ended <--'--> refused: not asked again for a while

The gate is open meanwhile, since that may take as long as a checkpoint; who waits keeps his place, so that nobody passes.
*/
type yielders struct {
	spared preempt.Grudges[job.Whose] // jobs of which nothing is wanted, as they have refused, or not done what they said
	rounds int                        // how often somebody was asked
}

// mostRounds is after how many somebody gives up who does not wait, as jobs come and go.
const mostRounds = 10

// makeRoom has jobs give way to a request that failed so, and reports whether another attempt is worth while. An error
// ends the request.
func (r *reservation) makeRoom(ctx context.Context, failed *plan.Error) (again bool, err error) {
	at := preempt.Standing{Ahead: r.snap.Ahead, Passes: !r.queue.Orders(), Granted: r.req.RM.ID() != "", Gives: r.req.Preemptible != ""}
	if !preempt.Asks(at, failed) || r.yielders.rounds == mostRounds && !r.req.Wait {
		return false, nil
	}
	now := time.Now()
	fits := func(snap job.Snapshot) bool {
		_, err := makePlan(ctx, r.req, snap)
		return err == nil
	}
	victims := preempt.Choose(r.snap, fits, func(v preempt.Victim) bool { return !r.yielders.spared.Holds(v.Whose(), now).IsZero() })
	if len(victims) == 0 || ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	r.yielders.rounds++
	var names []string
	for _, v := range victims {
		names = append(names, fmt.Sprintf("job %s of %s (%s)", v.Job, v.User, v.How))
	}
	r.env.Say("asking " + strings.Join(names, ", ") + " to give way")
	limit := giveWayTime(r.req)
	until := now.Add(limit)
	gone, err := r.askAll(ctx, victims, limit)
	if err == nil {
		err = r.awaitGone(ctx, gone, until)
	}
	return err == nil, err
}

// giveWayTime is how long others may take to give way: to write a checkpoint, and to end.
func giveWayTime(req job.Request) time.Duration {
	grace := req.Ckpt.Grace
	if grace == 0 {
		grace = job.DefaultCheckpointGrace
	}
	return grace + req.Limits.Grace
}

// askAll asks jobs to give way, and returns those that say they have. A node is asked for one job at a time.
func (r *reservation) askAll(ctx context.Context, victims []preempt.Victim, limit time.Duration) (gone []preempt.Victim, err error) {
	patient, done := r.env.Pauses.Within(ctx, limit, node.Silence{Limit: limit})
	defer done()
	for left := victims; len(left) > 0; {
		by := make(map[*host]preempt.Victim)
		var later []preempt.Victim
		var hosts []*host
		for _, v := range left {
			i := slices.IndexFunc(v.Nodes, func(n int) bool { _, asked := by[r.seen[n]]; return !asked && r.seen[n].lost == nil })
			switch {
			case i >= 0:
				h := r.seen[v.Nodes[i]]
				by[h], hosts = v, append(hosts, h)
			case slices.ContainsFunc(v.Nodes, func(n int) bool { return r.seen[n].lost == nil }):
				later = append(later, v)
			}
		}
		ids := make(map[*host]string)
		_, err := r.inquire(patient, hosts, func(n *host) wire.Message {
			question := r.question(job.Ask{Job: by[n].Job, Verb: job.AskYield, Args: preempt.Words(r.req.Job), Since: time.Now()})
			ids[n] = question.ID
			return question
		}, func(n *host, m wire.Message) bool {
			answer, is := m.(*wire.Answer)
			if is = is && answer.ID == ids[n]; is && answer.State == job.AskDone {
				gone = append(gone, by[n])
			} else if is {
				r.env.Say(fmt.Sprintf("job %s does not give way: %s", by[n].Job, answer.Text))
			}
			return is
		})
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		left = later
	}
	for _, v := range victims { // of those that have done so nothing is wanted either, if it was for nothing
		r.yielders.spared.Note(v.Whose(), time.Now())
	}
	return gone, nil
}

// awaitGone waits until nothing is claimed any more for jobs that give way, for as long as that may take.
func (r *reservation) awaitGone(ctx context.Context, gone []preempt.Victim, until time.Time) error {
	holds := func(c job.Claim) bool {
		return !c.Suspended && slices.ContainsFunc(gone, func(v preempt.Victim) bool { return v.Whose() == c.Whose() })
	}
	for len(gone) > 0 && time.Now().Before(until) {
		r.watchClaims()
		pages, err := r.pages(ctx, "")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(pages, func(p job.Page) bool { return slices.ContainsFunc(p.Claims, holds) }) {
			return nil
		}
		if err := r.queue.AwaitChange(ctx); err != nil {
			return err
		}
	}
	return nil
}
