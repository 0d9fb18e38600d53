package launch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/preempt"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
)

/*
A job that gives way by being queued again ends its attempt (survive.md SV-33); the next one waits for its turn:

	asked --> checkpoint, if it can write one --> ended --> claims given up --> somebody has claimed, or 30 s --> the queue
	   |          | --ckpt-required                 | the helpers leave the answer: who asks sees the claims go
	   '----------'--> refused: all is as it was
*/
type ceding struct{ by supervise.Asked }

// requeue takes the wish of somebody who is next that the job gives way.
func (f *fleet) requeue(by supervise.Asked) {
	refuse := func(why string, later bool) {
		f.reply(supervise.Reply{To: by, State: job.AskRefused, Text: why, Later: later})
	}
	switch {
	case !f.state.Runs():
		refuse("its ranks do not all run yet", true)
		return
	case f.state.Held():
		refuse("suspended: its ranks could not write a checkpoint", true)
		return
	case f.moving != nil || f.ceding != nil:
		refuse("it is being moved, or gives way already", true)
		return
	}
	f.ceding = &ceding{by}
	f.env.Say(by.Told(fmt.Sprintf("preempted by %s: it is being queued again", by.Beneficiary())))
	if !f.req.Ckpt.Asks() {
		f.reply(supervise.Reply{To: by, State: job.AskTaken, Text: "it ends"})
		f.cede()
		return
	}
	f.reply(supervise.Reply{To: by, State: job.AskTaken, Text: "checkpoint asked for"})
	f.saves.askToStop(f.cede, f.keepOn)
}

// cede ends the attempt, unless somebody wants the job to stand still by now.
func (f *fleet) cede() {
	if f.state.Held() {
		f.saves.step(checkpoint.Stays{}, time.Now())
		f.keepOn("suspended meanwhile")
		return
	}
	f.act(f.state, f.state.Step(supervise.Preempted{By: f.ceding.by}, time.Now()))
	if !f.state.Resettles() {
		f.keepOn("the job has ended by itself")
	}
}

// keepOn is the end of a job's giving way that is not to be.
func (f *fleet) keepOn(why string) {
	if c := f.ceding; c != nil {
		f.ceding = nil
		f.reply(supervise.Reply{To: c.by, State: job.AskRefused, Text: why})
	}
}

// giveUp gives up what an attempt has claimed that gave way, and waits until somebody has claimed of it, for a while:
// nobody else is to be faster than who was given way to, the job least of all. Who does not come is remembered.
func (l *lives) giveUp(ctx context.Context, old, f *fleet) error {
	ctx, done := l.within(ctx)
	defer done()
	by := old.ceding.by
	given, err := reserve.GiveUp(ctx, l.first, f.env.Env, f.kept, old.plan, job.Whose{Job: preempt.For(by.Args), UID: by.UID}, preempt.Patience)
	if f.kept = given.Left; err != nil || given.Claimed {
		return err
	}
	unread := ""
	if len(given.Unread) > 0 {
		unread = ", as far as that can be read (" + strings.Join(given.Unread, "; ") + ")"
	}
	now := time.Now()
	l.grudges.Note(by.UID, now)
	l.env.Say(fmt.Sprintf("its CPUs were not claimed for %v%s: it queues, and does not give way to %s again until %s",
		preempt.Patience, unread, by.User, l.grudges.Holds(by.UID, now).Format(time.TimeOnly)))
	return nil
}
