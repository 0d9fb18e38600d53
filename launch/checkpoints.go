package launch

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"remshell/job"
	"remshell/launch/checkpoint"
	"remshell/launch/supervise"
)

// A Checkpointer is the world of a job's checkpoints, on this machine (survive.md 4).
type Checkpointer interface {
	// Run runs the user's command with variables (NAME=VALUE) beside our own until it or ctx ends, and
	// says why it has failed; empty: it has not. It may be called from any goroutine.
	Run(ctx context.Context, command string, vars []string) (why string)
	// Written reports whether a file has a time at or after another, to the second.
	Written(file string, since time.Time) bool
}

/*
Checkpoints are those of one attempt: the goroutine that owns the job has them asked for, and hears of them.

	supervise --Runs, Saved--> turn --events--> checkpoint.State --actions--> ranks, command, file, user
*/
type checkpoints struct {
	fleet   *fleet
	state   checkpoint.State
	began   bool
	command int // that runs, or was the last to run: the news of another is old
	cancel  context.CancelFunc
	answers []func(why string) // of those who have asked
	stop    func()             // the job, as somebody wanted it to be behind its checkpoint
}

func (f *fleet) newCheckpoints() *checkpoints {
	return &checkpoints{fleet: f, state: checkpoint.New(f.req.Ckpt)}
}

// commandOver is the news that a command has ended.
type commandOver struct {
	number int
	why    string
}

// Ask asks for a checkpoint, for somebody who is told what came of it: empty, or why there is none. With stop the
// job is stopped by it then, whatever came of the checkpoint. The owner of the job calls it.
func (c *checkpoints) ask(answer func(why string), stop func()) {
	c.answers = append(c.answers, answer)
	if stop != nil {
		c.stop = stop
	}
	c.step(checkpoint.Ask{Stop: stop != nil}, time.Now())
}

// askToStop is ask for who wants the attempt to end behind its checkpoint: stop ends it, or it goes on, and stays is told why.
func (c *checkpoints) askToStop(stop func(), stays func(why string)) {
	c.ask(func(why string) {
		if c.state.Phase != checkpoint.Stopping { // no end of the attempt follows
			stays(why)
		}
	}, stop)
}

// turn looks whether there is news of the job, or it is time for something.
func (c *checkpoints) turn(now time.Time) {
	life := c.fleet.state
	switch due := c.next(); {
	case c.state.Phase == checkpoint.Over:
	case life.Saved():
		c.step(checkpoint.Fulfilled{}, now)
		c.step(checkpoint.Ended{}, now)
	case life.Phase != supervise.Running:
		c.step(checkpoint.Ended{}, now)
	case !c.began && life.Runs():
		c.began = true
		c.step(checkpoint.Began{End: life.End()}, now)
	case !due.IsZero() && !now.Before(due):
		c.step(checkpoint.Tick{}, now)
	}
}

// next is when there is something to do; the zero time: never. It stands still with the ranks.
func (c *checkpoints) next() time.Time {
	if c.fleet.state.Held() {
		return time.Time{}
	}
	return c.state.Next()
}

// over takes the end of a command.
func (c *checkpoints) over(e commandOver) {
	switch {
	case e.number != c.command:
	case e.why != "":
		c.step(checkpoint.Failed{Why: e.why}, time.Now())
	default:
		c.step(checkpoint.Fulfilled{}, time.Now())
	}
}

// step carries out what comes of an event.
func (c *checkpoints) step(event checkpoint.Event, now time.Time) {
	for _, action := range c.state.Step(event, now) {
		switch a := action.(type) {
		case checkpoint.Request:
			c.request(now)
		case checkpoint.Look:
			if c.fleet.env.Checkpoints.Written(c.fleet.req.Ckpt.Done, c.state.Since) {
				c.step(checkpoint.Fulfilled{}, now)
			}
		case checkpoint.Tell:
			c.fleet.env.watcher().Again(job.Again{Event: "checkpoint", State: a.State, Seconds: a.After.Round(time.Millisecond).Seconds()})
		case checkpoint.Say:
			c.fleet.env.Say(a.Text)
		case checkpoint.Answer:
			for _, answer := range c.answers {
				answer(a.Err)
			}
			c.answers = nil
		case checkpoint.Stop:
			c.stop()
		}
	}
	if c.state.Phase != checkpoint.Asked {
		c.close()
	}
}

// request asks the ranks, or has the command do so.
func (c *checkpoints) request(now time.Time) {
	f, policy := c.fleet, c.fleet.req.Ckpt
	f.state.Step(supervise.Saving{Until: now.Add(policy.Grace)}, now)
	if policy.Command == "" {
		f.act(f.state, []supervise.Action{supervise.SignalAll{Signal: policy.Signal}})
		return
	}
	c.close()
	ctx, cancel := context.WithCancel(context.Background())
	c.command, c.cancel = c.command+1, cancel
	number, vars := c.command, []string{"MPIEXEC_JOBID=" + string(f.req.Job), "MPIEXEC_CKPT_DIR=" + policy.Dir, "MPIEXEC_ATTEMPT=" + strconv.Itoa(f.req.Attempt)}
	go func() {
		why := f.env.Checkpoints.Run(ctx, policy.Command, vars)
		if why != "" {
			why = fmt.Sprintf("--ckpt-cmd %s", why)
		}
		f.events.Put(commandOver{number, why})
	}()
}

// close ends the command, if one runs: nobody waits for it any more.
func (c *checkpoints) close() {
	if c.cancel != nil {
		c.cancel()
		c.cancel = nil
	}
}
