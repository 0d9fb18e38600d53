package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"remshell/batch"
	"remshell/format"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/limits"
	"remshell/trace"
	"remshell/usererr"
	"remshell/wire"
)

// supervise handles events until supervision ends, usually because no process of the job is left. Package supervise
// decides what to do about each event, and Job.Step carries it out.
func (j *Job) supervise(ctx context.Context) {
	defer j.watchSilentNodes()()
	due := j.callDue(time.Now())
	for !j.finished {
		events := j.events.Take(ctx, earlier(due, j.State.Next()))
		if len(events) == 0 {
			events = []any{supervise.Tick{}}
			if ctx.Err() != nil {
				events, ctx = []any{supervise.Signaled{Signal: cancelSignal(ctx)}}, context.WithoutCancel(ctx)
			}
		}
		for i, event := range events {
			events[i] = nil
			for _, input := range j.translate(event) {
				j.Step(input)
			}
			due = j.callDue(time.Now())
		}
	}
	for _, ended := range j.Hooks.Ended {
		ended()
	}
	j.endSearch()
}

// policy returns the user's settings about failures, signals and time limits. startBy is the deadline by
// which the ranks must have started.
func (j *Job) policy(startBy time.Time) supervise.Policy {
	req := j.Request
	return supervise.Policy{
		Grace: req.TimeLimits.Grace, StackTime: StackTime, Timeout: req.TimeLimits.Run,
		WallTime: supervise.TimeLimit{Max: req.ResourceLimits.Time(limits.WallTime), From: req.LimitOrigins[limits.WallTime]},
		StartBy:  startBy, Since: j.jobStart, Warn: warningOnNodes(req.TimeLimits.Warn), Margin: req.TimeLimits.Margin,
		EndPolicy: req.EndPolicy, SignalPolicy: signalsOnNodes(req.SignalPolicy), BatchJob: batchJobOf(req.RM),
	}
}

// askBatchSystem asks the batch system for the state of the batch job, if the ranks ended in a way that the batch
// system may have caused. If the batch job is over, the batch system is recorded as the cause.
func (j *Job) askBatchSystem() {
	if j.State.ShouldAskBatch() && j.Env.BatchState != nil && j.Env.BatchState() == batch.Over {
		j.State.BlameBatch()
	}
}

// report reports the end of an attempt (one run of all ranks) and returns its result. It reports the cause, waits for
// the rest of the output, and then prints notes and tables. If continues is true, another attempt follows, and report
// only reports the cause.
func (j *Job) report(ctx context.Context, continues bool) job.Result {
	unread := j.Streams.SeekStdinBack()
	reported := j.reportCause(j.State)
	if !continues {
		j.waitForStdout(ctx, j.State)
		if !reported { // writing the remaining output may have failed
			j.reportCause(j.State)
		}
	}
	result := j.result(j.State)
	for _, reported := range j.Hooks.Reported {
		reported(result)
	}
	if continues {
		return result
	}
	j.reportDetails(j.State, j.Request, result)
	if unread > 0 && result.Code == job.ExitOK && j.Env.UnreadInput != nil {
		j.Env.UnreadInput(unread)
	}
	j.Env.reportSlowest()
	j.waitForPrinter(ctx, j.State, j.Env.Err)
	return result
}

// batchJobOf returns the batch job in which mpiexec is running, or the zero BatchJob.
func batchJobOf(rm *job.RM) supervise.BatchJob {
	if rm == nil {
		return supervise.BatchJob{}
	}
	return supervise.BatchJob{System: rm.Name, Job: rm.Job, End: rm.End}
}

// cancelSignal returns the signal that cancelled ctx, or SIGTERM if ctx was cancelled in another way. The signal may
// have arrived between the last check for signals during the start and the moment when the job began to handle them.
func cancelSignal(ctx context.Context) job.Signal {
	var cancelled *reserve.SignalError
	if errors.As(context.Cause(ctx), &cancelled) {
		return signalOnNodes(cancelled.Signal)
	}
	return job.SIGTERM
}

// drainTimeout is how long mpiexec may take to write the rest of the output if the job was ended from
// outside, for example by a signal (rule IO-10).
const drainTimeout = 2 * time.Second

// reportCause reports the cause of the job's end to the user. It returns false if the end has no cause to
// report.
func (j *Job) reportCause(state *supervise.State) bool {
	report := state.Report(func(rank int) supervise.RankProfile { return j.rankProfile(state, rank) }, j.sequel)
	if report == "" {
		return false
	}
	j.Env.PrintFailure(strings.Split(report, "\n")...)
	return true
}

// reportDetails prints the notes and tables at the end of a job.
func (j *Job) reportDetails(state *supervise.State, req job.Request, result job.Result) {
	_, _, first := j.RankPlan(0)
	if note := supervise.NotOurMPI(state.Exits, j.Size, first.Argv[0]); note != "" {
		j.Env.Report(note)
	}
	if note := supervise.StuckInFinalize(state.Exits, state.Nodes()); note != "" {
		j.Env.Report(note)
	}
	for _, line := range formatKeptSessions(result.NodeTotals) {
		j.Env.Report(line)
	}
	if req.EndPolicy.ReportExitCodes {
		for _, line := range state.ExitCodes() {
			fmt.Fprintf(j.Env.Err, "mpiexec: %s\n", line)
		}
	}
	for _, report := range j.Hooks.Details {
		report(result)
	}
}

// result returns what ResultSoFar returns, and also sets the exit code and the cause of the job's end.
func (j *Job) result(state *supervise.State) job.Result {
	r := j.ResultSoFar()
	r.Code, r.Reason = state.ExitCode(), state.Cause.Reason()
	if state.Cause != nil {
		r.Cause = state.Cause.Text
	}
	return r
}

// ResultSoFar returns the part of the result that is about ranks and nodes. It may be called while the job is running.
func (j *Job) ResultSoFar() job.Result {
	where := j.RankNodes()
	r := job.Result{Starts: j.record.allStarts(where), Connections: j.connections}
	r.Exits, r.NodeTotals = j.record.totals(where, j.State.Exits)
	for _, add := range j.Hooks.Result {
		add(&r)
	}
	return r
}

// printerDone is the event that waitForPrinter receives when a printer has written everything.
type printerDone struct{ printer *stdio.Printer }

// waitForPrinter waits until a printer has written everything. If the ranks ended by themselves, it waits as
// long as the reader of the output needs. A signal ends the wait. It does not wait if the user has pressed ^C
// three times.
func (j *Job) waitForPrinter(ctx context.Context, state *supervise.State, p *stdio.Printer) {
	p.Close()
	go func() {
		<-p.Done()
		j.events.Put(printerDone{p})
	}()
	began := time.Now()
	for state.WaitsForNodes() {
		var deadline time.Time
		if state.EndedFromOutside() {
			deadline = began.Add(drainTimeout)
		}
		events := j.events.Take(ctx, deadline)
		if len(events) == 0 {
			return
		}
		for _, event := range events {
			switch e := event.(type) {
			case printerDone:
				if e.printer == p {
					return
				}
			case supervise.Failure:
				if e.Kind.CountsAfterRanks() {
					state.Step(e, time.Now())
				}
			case supervise.Signaled:
				if e.Signal == job.SIGINT || e.Signal == job.SIGTERM || e.Signal == job.SIGHUP {
					state.BlameSignal(e.Signal, time.Now())
					return
				}
			}
		}
	}
}

// waitForStdout waits until all output of ranks is written to standard output.
func (j *Job) waitForStdout(ctx context.Context, state *supervise.State) {
	writing := j.Env.Trace.Begin(trace.Row{}, trace.Output)
	j.waitForPrinter(ctx, state, j.Env.Out)
	writing.End(nil)
}

// translate converts an event of the inbox to events for Step. It handles most kinds of events itself and
// then returns nil. Events of package supervise, such as Signaled, are returned unchanged.
func (j *Job) translate(event any) []supervise.Event {
	switch e := event.(type) {
	case node.NodeMessage:
		return j.handleMessage(e)
	case postedFunc:
		return e()
	case node.Disconnected:
		j.search.deliver(e)
		n := j.members[e.From]
		if n == nil && j.standbyLost(e) {
			return nil
		}
		if n == nil {
			j.search.nodeLost(e.From)
			return nil // not, or not yet, part of the job
		}
		if n.Lost != nil {
			return nil // it was given up before
		}
		n.Lost, j.lastNodeLost = e.Err, time.Now()
		for _, lost := range j.Hooks.NodeLost {
			lost(n)
		}
		lost := supervise.NodeLost{Node: n.Key, Why: usererr.Reason(e.Err)}
		if node.IsViolation(e.Err) {
			return []supervise.Event{supervise.NodeViolated{NodeLost: lost}}
		}
		return []supervise.Event{lost}
	case silenceCheckDue:
		j.checkSilentNodes(time.Now())
		return nil
	case batchStateRead:
		return j.batchStateRead(e, time.Now())
	case reserve.LateEvent:
		e.Discard()
		return nil
	}
	return []supervise.Event{event}
}

// Step passes an event to package supervise and carries out the actions that it returns. If mpiexec ends
// ranks that are stopped, Step continues them first, because a stopped process would not handle the signal
// (rule SV-31).
func (j *Job) Step(event supervise.Event) {
	now := time.Now()
	actions := j.State.Step(event, now)
	if j.State.Phase != supervise.Running {
		j.carryOutHolds(j.holds.End(now), now)
	}
	j.carryOut(actions)
}

// carryOut carries out the actions that package supervise has decided on.
func (j *Job) carryOut(actions []supervise.Action) {
	for _, action := range actions {
		switch a := action.(type) {
		case supervise.SignalAllRanks:
			j.SendAll(&wire.Signal{Number: int(a.Signal)})
		case supervise.EndAll:
			j.fences.Fail(ErrJobEnding)
			for _, ending := range j.Hooks.Ending {
				ending()
			}
			j.cancelSearch()
			j.SendAll(&wire.EndJob{Linger: a.Linger, Grace: a.Grace})
		case supervise.InspectRanks:
			for _, inspect := range j.Hooks.InspectRanks {
				inspect(a.Stacks)
			}
		case supervise.BatchLine:
			fmt.Fprintln(j.Env.Err, format.EscapeSentence(a.Text))
		case supervise.ReportLine:
			j.Env.Report(a.Text)
		case supervise.StopLauncher:
			j.suspendJob()
		case supervise.Finish:
			j.finished = true
		}
	}
}

// SendAll sends a message to all nodes of the job.
func (j *Job) SendAll(m wire.Message) {
	for _, n := range j.Nodes {
		n.Send(m)
	}
}
