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

// A CheckpointRunner runs checkpoint commands and looks for checkpoint files on this machine
// (survive.md 4).
type CheckpointRunner interface {
	// Run runs the user's command with vars (NAME=VALUE) added to our environment, until it or ctx
	// ends. It returns why the command failed, or "". It may be called from any goroutine.
	Run(ctx context.Context, command string, vars []string) (why string)
	// Written reports whether file was last changed at or after since, to the second.
	Written(file string, since time.Time) bool
}

/*
A checkpointer takes the checkpoints of one attempt. Only the goroutine that owns the job uses it.

	supervise --request, update--> checkpointer --events--> checkpoint.State --actions--> ranks, command, file, user
*/
type checkpointer struct {
	running *Job
	state   checkpoint.State
	began   bool
	command int // number of the last command; the end of an earlier one is ignored
	cancel  context.CancelFunc
	replies []func(why string) // callers of request, each to be called once with the outcome
	stopJob func()             // stops the job after the checkpoint; nil unless request was given stop
}

func (j *Job) newCheckpointer() *checkpointer {
	return &checkpointer{running: j, state: checkpoint.New(j.Request.Checkpoint)}
}

// commandEnded is the event that a checkpoint command has ended.
type commandEnded struct {
	number int
	why    string
}

// request starts a checkpoint, or joins the one in progress. It calls answer with "" when the
// checkpoint is written, or with the reason why there is none. If stop is not nil, it is called
// afterwards to stop the job, whether or not there is a checkpoint. Only the owner of the job calls
// request.
func (c *checkpointer) request(answer func(why string), stop func()) {
	c.replies = append(c.replies, answer)
	if stop != nil {
		c.stopJob = stop
	}
	c.handleEvent(checkpoint.CheckpointWanted{StopAfter: stop != nil}, time.Now())
}

// requestAndStop requests a checkpoint after which stop ends the attempt. If the attempt goes on
// instead, stays is called with the reason.
func (c *checkpointer) requestAndStop(stop func(), stays func(why string)) {
	c.request(func(why string) {
		if c.state.Phase != checkpoint.Stopping { // the attempt goes on
			stays(why)
		}
	}, stop)
}

// update checks whether the job's state has changed or a deadline has passed.
func (c *checkpointer) update(now time.Time) {
	state := c.running.State
	switch due := c.nextTime(); {
	case c.state.Phase == checkpoint.Over:
	case state.AllCheckpointed():
		c.handleEvent(checkpoint.Written{}, now)
		c.handleEvent(checkpoint.AttemptEnded{}, now)
	case state.Phase != supervise.Running:
		c.handleEvent(checkpoint.AttemptEnded{}, now)
	case !c.began && state.IsRunning():
		c.began = true
		c.handleEvent(checkpoint.JobRunning{End: state.End()}, now)
	case !due.IsZero() && !now.Before(due):
		c.handleEvent(checkpoint.Tick{}, now)
	}
}

// nextTime returns when update has something to do next; the zero time means never. It is never
// while the ranks are suspended.
func (c *checkpointer) nextTime() time.Time {
	if c.running.State.IsSuspended() {
		return time.Time{}
	}
	return c.state.Next()
}

// commandEnded handles the end of a command.
func (c *checkpointer) commandEnded(e commandEnded) {
	switch {
	case e.number != c.command:
	case e.why != "":
		c.handleEvent(checkpoint.CommandFailed{Why: e.why}, time.Now())
	default:
		c.handleEvent(checkpoint.Written{}, time.Now())
	}
}

// handleEvent passes an event to the checkpoint's state and carries out the actions that follow.
func (c *checkpointer) handleEvent(event checkpoint.Event, now time.Time) {
	for _, action := range c.state.Step(event, now) {
		switch a := action.(type) {
		case checkpoint.RequestCheckpoint:
			c.startCheckpoint(now)
		case checkpoint.CheckFile:
			if c.running.Env.CheckpointRunner.Written(c.running.Request.Checkpoint.DoneFile, c.state.RequestedAt) {
				c.handleEvent(checkpoint.Written{}, now)
			}
		case checkpoint.ReportEvent:
			c.running.Env.Events().AttemptEvent(job.AttemptEvent{Event: "checkpoint", State: a.State, Seconds: a.After.Round(time.Millisecond).Seconds()})
		case checkpoint.ReportLine:
			c.running.Env.Report(a.Text)
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

// startCheckpoint signals the ranks or runs the user's command.
func (c *checkpointer) startCheckpoint(now time.Time) {
	f, policy := c.running, c.running.Request.Checkpoint
	f.State.Step(supervise.CheckpointRequested{Grace: policy.Grace}, now)
	if policy.Command == "" {
		f.carryOut([]supervise.Action{supervise.SignalAllRanks{Signal: policy.Signal}})
		return
	}
	c.close()
	ctx, cancel := context.WithCancel(context.Background())
	c.command, c.cancel = c.command+1, cancel
	number, vars := c.command, []string{"MPIEXEC_JOBID=" + string(f.Request.Job), "MPIEXEC_CKPT_DIR=" + policy.Dir, "MPIEXEC_ATTEMPT=" + strconv.Itoa(f.Request.Attempt)}
	go func() {
		why := f.Env.CheckpointRunner.Run(ctx, policy.Command, vars)
		if why != "" {
			why = fmt.Sprintf("--ckpt-cmd %s", why)
		}
		f.events.Put(commandEnded{number, why})
	}()
}

// close ends the command, if one runs.
func (c *checkpointer) close() {
	if c.cancel != nil {
		c.cancel()
		c.cancel = nil
	}
}
