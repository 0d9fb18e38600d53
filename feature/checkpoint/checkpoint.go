/*
Package checkpoint is the feature of mpiexec that asks a running job to write checkpoints (survive.md 4). It does so at
times that the user has chosen, and when a user requests a checkpoint (--checkpoint, --migrate). Package machine decides
what to do, and package checkpoint carries that out.

	Request, Due --> checkpointer --events--> machine.State --actions--> ranks, command, file, user
*/
package checkpoint

import (
	"context"
	"strconv"
	"time"

	"remshell/feature/checkpoint/machine"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/control"
	"remshell/launch/supervise"
	"remshell/wire"
)

func init() {
	launch.Register(launch.Feature{Name: "checkpoint", Attach: attach})
	control.Register(job.VerbCheckpoint, control.Terms{Suspended: job.CannotSaveText})
}

func attach(j *launch.Job) {
	c := newCheckpointer(j)
	j.Checkpoints = c
	j.Hooks.Due.Add(c.update)
	j.Hooks.Resumed.Add(func(heldFor time.Duration) { c.state.Shift(heldFor, j.State.End()) })
	j.Hooks.Closing.Add(c.stopCommand)
	j.OnRequest(job.VerbCheckpoint, func(r control.Request) []supervise.Event {
		c.serve(r)
		return nil
	})
}

// A checkpointer requests the checkpoints of one attempt (one run of all ranks). Only the goroutine that
// supervises the job uses it.
type checkpointer struct {
	job     *launch.Job
	runner  runner
	post    func(do func()) // has do called by the goroutine of Run
	state   machine.State
	began   bool
	command int // number of the last command; the end of an earlier one is ignored
	cancel  context.CancelFunc
	replies []func(reason string) // callers of request, each to be called once with the outcome
	stopJob func()                // stops the job after the checkpoint; nil unless request was given stop
}

func newCheckpointer(j *launch.Job) *checkpointer {
	post := func(do func()) {
		j.Post(func() []supervise.Event {
			do()
			return nil
		})
	}
	runner := localRunner{out: j.Env.Err}
	if commands, given := launch.SettingOf[*Commands](j); given {
		runner.environ = commands.Environ
	}
	return &checkpointer{job: j, runner: runner, post: post, state: machine.New(j.Request.Checkpoint)}
}

// Request implements launch.Checkpoints. It starts a checkpoint, or joins the one in progress. It calls answer when
// the checkpoint ends, with the reason if it failed. If stop is not nil, it calls stop after the checkpoint, to stop
// the job.
func (c *checkpointer) Request(answer func(reason string), stop func()) {
	c.replies = append(c.replies, answer)
	if stop != nil {
		c.stopJob = stop
	}
	c.handleEvent(machine.CheckpointWanted{StopAfter: stop != nil}, time.Now())
}

// RequestAndStop implements launch.Checkpoints. It requests a checkpoint. After the checkpoint, it calls stop, which
// ends the run of the job. If the job must continue, it calls stays with the reason.
func (c *checkpointer) RequestAndStop(stop func(), stays func(reason string)) {
	c.Request(func(why string) {
		if c.state.Phase != machine.Stopping { // the attempt goes on
			stays(why)
		}
	}, stop)
}

// CancelStop implements launch.Checkpoints. It is called if the job continues although a stop after the checkpoint
// was requested.
func (c *checkpointer) CancelStop() { c.handleEvent(machine.StopCancelled{}, time.Now()) }

// InProgress implements launch.Checkpoints: it reports whether a checkpoint is being written. It returns false if
// mpiexec cannot find out when a checkpoint is complete.
func (c *checkpointer) InProgress() bool {
	return c.state.Phase == machine.InProgress && c.job.Request.Checkpoint.CanVerify()
}

// serve starts a checkpoint that a user has requested, and replies with the outcome.
func (c *checkpointer) serve(request control.Request) {
	c.job.Reply(request, job.ReplyAccepted, "mpiexec has requested a checkpoint")
	c.Request(func(text string) {
		state := job.ReplyDone
		switch {
		case text != "":
			state = job.ReplyRefused
		case c.job.Request.Checkpoint.CanVerify():
			text = "the checkpoint of the job is complete"
		default:
			text = "mpiexec has requested a checkpoint from the ranks"
		}
		c.job.Reply(request, state, text)
	}, nil)
}

// update passes an event to the state machine if the job's state has changed or the state machine's next timer has
// expired. It returns the time of the next call, as nextTime does.
func (c *checkpointer) update(now time.Time) time.Time {
	state := c.job.State
	switch due := c.nextTime(); {
	case c.state.Phase == machine.Over:
	case state.AllCheckpointed():
		c.handleEvent(machine.Written{}, now)
		c.handleEvent(machine.AttemptEnded{}, now)
	case state.Phase != supervise.Running:
		c.handleEvent(machine.AttemptEnded{}, now)
	case !c.began && state.IsRunning():
		c.began = true
		c.handleEvent(machine.JobRunning{End: state.End()}, now)
	case !due.IsZero() && !now.Before(due):
		c.handleEvent(machine.Tick{}, now)
	}
	return c.nextTime()
}

// nextTime returns the time of the next call of update. If it returns the zero time, as it does while the ranks are
// suspended, update is not called.
func (c *checkpointer) nextTime() time.Time {
	if c.job.State.IsSuspended() {
		return time.Time{}
	}
	return c.state.Next()
}

// commandEnded handles the end of the checkpoint command with the given number. It ignores all commands except the
// latest one. failure says why the command failed, and is empty if the command succeeded.
func (c *checkpointer) commandEnded(number int, failure string) {
	switch {
	case number != c.command:
	case failure != "":
		c.handleEvent(machine.CommandFailed{Why: failure}, time.Now())
	default:
		c.handleEvent(machine.Written{}, time.Now())
	}
}

// handleEvent passes an event to the state of the job's checkpoints and carries out the actions that the
// state returns.
func (c *checkpointer) handleEvent(event machine.Event, now time.Time) {
	for _, action := range c.state.Step(event, now) {
		switch a := action.(type) {
		case machine.RequestCheckpoint:
			c.startCheckpoint(now)
		case machine.CheckFile:
			if c.runner.isWritten(c.job.Request.Checkpoint.DoneFile, c.state.RequestedAt) {
				c.handleEvent(machine.Written{}, now)
			}
		case machine.ReportEvent:
			c.job.Env.Events().AttemptEvent(job.AttemptEvent{Event: "checkpoint", State: a.State, Seconds: a.After.Round(time.Millisecond).Seconds()})
		case machine.ReportLine:
			c.job.Env.Report(a.Text)
		case machine.ReplyAll:
			for _, answer := range c.replies {
				answer(a.Err)
			}
			c.replies = nil
		case machine.StopJob:
			c.stopJob()
		}
	}
	if c.state.Phase != machine.InProgress {
		c.stopCommand()
	}
}

// startCheckpoint signals the ranks or runs the user's command.
func (c *checkpointer) startCheckpoint(now time.Time) {
	j, policy := c.job, c.job.Request.Checkpoint
	j.State.Step(supervise.CheckpointRequested{Grace: policy.Grace}, now)
	if policy.Command == "" {
		j.SendAll(&wire.Signal{Number: int(policy.Signal)})
		return
	}
	c.stopCommand()
	ctx, cancel := context.WithCancel(context.Background())
	c.command, c.cancel = c.command+1, cancel
	number, vars := c.command, []string{"MPIEXEC_JOBID=" + string(j.Request.Job), "MPIEXEC_CKPT_DIR=" + policy.Dir, "MPIEXEC_ATTEMPT=" + strconv.Itoa(j.Request.Attempt)}
	go func() {
		why := c.runner.run(ctx, policy.Command, vars)
		c.post(func() { c.commandEnded(number, why) })
	}()
}

// stopCommand kills the checkpoint command, if one is running.
func (c *checkpointer) stopCommand() {
	if c.cancel != nil {
		c.cancel()
		c.cancel = nil
	}
}
