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

// A CheckpointRunner is the world of a job's checkpoints, on this machine (survive.md 4).
type CheckpointRunner interface {
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
type checkpointer struct {
	fleet   *runningJob
	state   checkpoint.State
	began   bool
	command int // that runs, or was the last to run: the news of another is old
	cancel  context.CancelFunc
	replies []func(why string) // of those who have asked
	stopJob func()             // the job, as somebody wanted it to be behind its checkpoint
}

func (f *runningJob) newCheckpointer() *checkpointer {
	return &checkpointer{fleet: f, state: checkpoint.New(f.req.Checkpoint)}
}

// commandEnded is the news that a command has ended.
type commandEnded struct {
	number int
	why    string
}

// Ask asks for a checkpoint, for somebody who is told what came of it: empty, or why there is none. With stop the
// job is stopped by it then, whatever came of the checkpoint. The owner of the job calls it.
func (c *checkpointer) request(answer func(why string), stop func()) {
	c.replies = append(c.replies, answer)
	if stop != nil {
		c.stopJob = stop
	}
	c.handleEvent(checkpoint.CheckpointWanted{StopAfter: stop != nil}, time.Now())
}

// requestAndStop is ask for who wants the attempt to end behind its checkpoint: stop ends it, or it goes on, and stays is told why.
func (c *checkpointer) requestAndStop(stop func(), stays func(why string)) {
	c.request(func(why string) {
		if c.state.Phase != checkpoint.Stopping { // no end of the attempt follows
			stays(why)
		}
	}, stop)
}

// update looks whether there is news of the job, or it is time for something.
func (c *checkpointer) update(now time.Time) {
	life := c.fleet.state
	switch due := c.nextTime(); {
	case c.state.Phase == checkpoint.Over:
	case life.AllCheckpointed():
		c.handleEvent(checkpoint.Written{}, now)
		c.handleEvent(checkpoint.AttemptEnded{}, now)
	case life.Phase != supervise.Running:
		c.handleEvent(checkpoint.AttemptEnded{}, now)
	case !c.began && life.IsRunning():
		c.began = true
		c.handleEvent(checkpoint.JobRunning{End: life.End()}, now)
	case !due.IsZero() && !now.Before(due):
		c.handleEvent(checkpoint.Tick{}, now)
	}
}

// nextTime is when there is something to do; the zero time: never. It stands still with the ranks.
func (c *checkpointer) nextTime() time.Time {
	if c.fleet.state.IsSuspended() {
		return time.Time{}
	}
	return c.state.Next()
}

// commandEnded takes the end of a command.
func (c *checkpointer) commandEnded(e commandEnded) {
	switch {
	case e.number != c.command:
	case e.why != "":
		c.handleEvent(checkpoint.CommandFailed{Why: e.why}, time.Now())
	default:
		c.handleEvent(checkpoint.Written{}, time.Now())
	}
}

// handleEvent carries out what comes of an event.
func (c *checkpointer) handleEvent(event checkpoint.Event, now time.Time) {
	for _, action := range c.state.Step(event, now) {
		switch a := action.(type) {
		case checkpoint.RequestCheckpoint:
			c.startCheckpoint(now)
		case checkpoint.CheckFile:
			if c.fleet.env.CheckpointRunner.Written(c.fleet.req.Checkpoint.DoneFile, c.state.RequestedAt) {
				c.handleEvent(checkpoint.Written{}, now)
			}
		case checkpoint.ReportEvent:
			c.fleet.env.observer().AttemptEvent(job.AttemptEvent{Event: "checkpoint", State: a.State, Seconds: a.After.Round(time.Millisecond).Seconds()})
		case checkpoint.ReportLine:
			c.fleet.env.Report(a.Text)
		case checkpoint.ReplyAll:
			for _, answer := range c.replies {
				answer(a.Err)
			}
			c.replies = nil
		case checkpoint.StopJob:
			c.stopJob()
		}
	}
	if c.state.Phase != checkpoint.InProgress {
		c.close()
	}
}

// startCheckpoint asks the ranks, or has the command do so.
func (c *checkpointer) startCheckpoint(now time.Time) {
	f, policy := c.fleet, c.fleet.req.Checkpoint
	f.state.Step(supervise.CheckpointRequested{Until: now.Add(policy.Grace)}, now)
	if policy.Command == "" {
		f.carryOut(f.state, []supervise.Action{supervise.SignalAllRanks{Signal: policy.Signal}})
		return
	}
	c.close()
	ctx, cancel := context.WithCancel(context.Background())
	c.command, c.cancel = c.command+1, cancel
	number, vars := c.command, []string{"MPIEXEC_JOBID=" + string(f.req.Job), "MPIEXEC_CKPT_DIR=" + policy.Dir, "MPIEXEC_ATTEMPT=" + strconv.Itoa(f.req.Attempt)}
	go func() {
		why := f.env.CheckpointRunner.Run(ctx, policy.Command, vars)
		if why != "" {
			why = fmt.Sprintf("--ckpt-cmd %s", why)
		}
		f.events.Put(commandEnded{number, why})
	}()
}

// close ends the command, if one runs: nobody waits for it any more.
func (c *checkpointer) close() {
	if c.cancel != nil {
		c.cancel()
		c.cancel = nil
	}
}
