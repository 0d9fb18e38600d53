package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"remshell/batch"
	"remshell/format"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/trace"
	"remshell/usererr"
	"remshell/wire"
)

// supervise runs the job to its end. It passes each event to Step and carries out the actions that
// Step returns.
func (f *runningJob) supervise(ctx context.Context, startBy time.Time) (job.Result, error) {
	req := f.req
	state := supervise.NewState(f.plan, supervise.Policy{
		Grace: req.TimeLimits.Grace, StackTime: wire.StackDumpTime, Timeout: req.TimeLimits.Run, ResourceLimits: req.ResourceLimits, LimitOrigins: req.LimitOrigins, EndPolicy: req.EndPolicy, StartBy: startBy, Since: f.jobStart, SignalPolicy: signalsOnNodes(req.SignalPolicy), BatchJob: batchSystem(req.RM),
		Warn: warningOnNodes(req.TimeLimits.Warn), Margin: req.TimeLimits.Margin, RateLimits: f.rateLimits,
	}, time.Now())
	f.state = &state
	defer f.watchSilentNodes()()
	f.checkpoints = f.newCheckpointer()
	defer f.checkpoints.close()
	interim := newInterimReporter(f.env)
	for finished := false; !finished; {
		events := f.events.Take(ctx, earlier(earlier(interim.due, f.checkpoints.nextTime()), earlier(f.helpTexts.NextReport(), state.Next())))
		if len(events) == 0 {
			events = []any{supervise.Tick{}}
			if ctx.Err() != nil {
				events, ctx = []any{supervise.Signaled{Signal: cancelSignal(ctx)}}, context.WithoutCancel(ctx)
			}
		}
		for i, event := range events {
			events[i] = nil
			for _, input := range f.translate(event) {
				finished = f.carryOut(&state, state.Step(input, time.Now())) || finished
			}
			f.nextSpawn()
			f.searchMoveTarget()
			f.checkpoints.update(time.Now())
		}
		interim.reportIfDue(f)
		f.reportLines(f.helpTexts.TakeDue(time.Now()))
	}
	f.endOpenSteps()
	f.endSearch()
	f.abandonMove()
	mayRestart := reserve.MayHaveNextAttempt(req)
	if !mayRestart {
		f.sendAll(&wire.Bye{})
	}
	for _, g := range f.groups {
		g.bindings.reportNow()
	}
	f.reportStates()
	f.reportLines(f.helpTexts.TakeRest())
	if state.ShouldAskBatch() && f.env.BatchState != nil && f.env.BatchState() == batch.Over {
		state.BlameBatch(time.Now())
	}
	unread := f.streams.SeekStdinBack()
	again := f.decideRestart(&state)
	if mayRestart {
		f.endConversations(again)
	}
	reported := f.reportCause(&state)
	if again {
		f.writeTrace()
		return f.result(&state), nil
	}
	f.waitForStdout(ctx, &state)
	if !reported { // writing the remaining output may have failed
		f.reportCause(&state)
	}
	result := f.result(&state)
	f.writeTrace()
	f.reportDetails(&state, req, result)
	if unread > 0 && result.Code == job.ExitOK && f.env.UnreadInput != nil {
		f.env.UnreadInput(unread)
	}
	f.env.reportSlowest()
	f.waitForPrinter(ctx, &state, f.env.Err)
	return result, nil
}

// batchSystem returns the batch job in which mpiexec runs, or the zero BatchJob.
func batchSystem(rm *job.RM) supervise.BatchJob {
	if rm == nil {
		return supervise.BatchJob{}
	}
	return supervise.BatchJob{System: rm.Name, Job: rm.Job, End: rm.End}
}

// cancelSignal returns the signal that cancelled ctx. One may arrive after the last check of a
// start and before supervision receives signals.
func cancelSignal(ctx context.Context) job.Signal {
	var cancelled *reserve.SignalError
	if errors.As(context.Cause(ctx), &cancelled) {
		return signalOnNodes(cancelled.Signal)
	}
	return job.SIGTERM
}

// drainTimeout is how long writing the rest of the output may take when a job was ended from
// outside (IO-10).
const drainTimeout = 2 * time.Second

// reportCause reports what ended the job, and whether there is a cause.
func (f *runningJob) reportCause(state *supervise.State) bool {
	report := state.Report(func(rank int) supervise.RankProfile { return f.rankProfile(state, rank) })
	if report == "" {
		return false
	}
	f.env.reportFailure(strings.Split(report, "\n")...)
	return true
}

// reportDetails prints the notes and tables at the end of a job.
func (f *runningJob) reportDetails(state *supervise.State, req job.Request, result job.Result) {
	_, _, first := f.rankPlan(0)
	if note := state.NotOurMPI(first.Argv[0]); note != "" {
		f.env.Report(note)
	}
	if note := state.StuckInFinalize(); note != "" {
		f.env.Report(note)
	}
	f.reportLines(formatKeptSessions(result.NodeTotals))
	if req.EndPolicy.ReportExitCodes {
		for _, line := range state.ExitCodes() {
			fmt.Fprintf(f.env.Err, "mpiexec: %s\n", line)
		}
	}
	if req.EndPolicy.UsageReport != "" {
		fmt.Fprint(f.env.Err, formatUsage(req.Job, req.EndPolicy, result, f.groupFirsts))
	}
}

// result returns the result of the job.
func (f *runningJob) result(state *supervise.State) job.Result {
	r := f.rankResults(&state.Usage)
	r.Code, r.Reason = state.ExitCode(), state.Cause.Reason()
	if state.Cause != nil {
		r.Cause = state.Cause.Text
	}
	return r
}

// rankResults returns the part of the result that is about ranks and nodes.
func (f *runningJob) rankResults(tally *supervise.UsageTotals) job.Result {
	where := f.rankNodes()
	r := job.Result{Starts: f.usage.allStarts(where), Connections: f.connections}
	r.Exits, r.NodeTotals = f.usage.totals(where, f.state.Exits)
	r.Usage = f.usage.jobUsage(where, r, tally)
	r.Leftovers = f.usage.leftovers
	return r
}

// printerDone is the event that a printer has written everything.
type printerDone struct{ printer *stdio.Printer }

// waitForPrinter waits until a printer has written everything. If the ranks ended by themselves,
// that may take as long as its reader needs. A signal always ends the wait. If the user pressed ^C
// three times, waitForPrinter does not wait.
func (f *runningJob) waitForPrinter(ctx context.Context, state *supervise.State, p *stdio.Printer) {
	p.Close()
	go func() {
		<-p.Done()
		f.events.Put(printerDone{p})
	}()
	began := time.Now()
	for state.WaitsForNodes() {
		var deadline time.Time
		if state.EndedFromOutside() {
			deadline = began.Add(drainTimeout)
		}
		events := f.events.Take(ctx, deadline)
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
func (f *runningJob) waitForStdout(ctx context.Context, state *supervise.State) {
	writing := f.env.Trace.Begin(trace.Row{}, trace.Output)
	f.waitForPrinter(ctx, state, f.env.Out)
	writing.End(nil)
}

// translate converts an event of the inbox to events for Step. Most it handles itself and returns
// nil.
func (f *runningJob) translate(event any) []supervise.Event {
	switch e := event.(type) {
	case node.NodeMessage:
		if answersReservation(e.Message) {
			f.search.deliver(e)
			return nil
		}
		n := f.members[e.From]
		if n == nil {
			return nil // not, or not yet, part of the job
		}
		return f.translateMessage(n, e.Message)
	case spawnPlaceFound:
		return f.spawnPlaceFound(e)
	case moveTargetFound:
		f.moveTargetFound(e)
		return nil
	case node.Disconnected:
		f.search.deliver(e)
		n := f.members[e.From]
		if n == nil && f.standbyLost(e) {
			return nil
		}
		if n == nil {
			f.search.nodeLost(e.From)
			return nil // not, or not yet, part of the job
		}
		if n.lost != nil {
			return nil // it was given up before
		}
		n.lost, f.lastNodeLost = e.Err, time.Now()
		f.addNodeStates(n.key, nil)
		f.endHostSteps(n)
		lost := supervise.NodeLost{Node: n.key, Why: usererr.Reason(e.Err)}
		if node.IsViolation(e.Err) {
			return []supervise.Event{supervise.NodeViolated{NodeLost: lost}}
		}
		return []supervise.Event{lost}
	case supervise.ControlRequested: // it has waited for a checkpoint
		return []supervise.Event{e}
	case commandEnded:
		f.checkpoints.commandEnded(e)
		return nil
	case failedRanksDue:
		e.sendFailedRanks()
		return nil
	case silenceCheckDue:
		f.checkSilentNodes(time.Now())
		return nil
	case batchStateRead:
		return f.batchStateRead(e, time.Now())
	case statesTimedOut:
		if e.query == f.statesQuery {
			f.reportStates()
		}
		return nil
	case reserve.LateEvent:
		e.Discard()
		return nil
	}
	return []supervise.Event{event}
}

// answersReservation reports whether a message is a reply to a reservation, including the reservation of a spawn.
func answersReservation(m wire.Message) bool {
	switch m.(type) {
	case *wire.MarkWritten, *wire.MarksRead, *wire.Surveyed, *wire.Prepared, *wire.Refused, *wire.ClaimConflict, *wire.MissingFiles, *wire.FileCredit, *wire.StageResult:
		return true
	}
	return false
}

func (f *runningJob) translateMessage(n *jobNode, m wire.Message) []supervise.Event {
	switch m := m.(type) {
	case *wire.Started:
		return f.rankStarted(n, m)
	case *wire.SampledUsage:
		f.usage.addSamples(m.Ranks)
		return []supervise.Event{supervise.SampledUsage{Node: n.key, UsageSample: m.Host, Ranks: m.Ranks}}
	case *wire.LimitExceeded:
		return []supervise.Event{supervise.LimitExceeded{Node: n.key, Rank: m.Rank, Resource: m.Limit.Resource, Used: m.Used, Allowed: m.Limit.Max}}
	case *wire.Exited:
		f.streams.RankEnded(m.Exit.Rank)
		f.env.observer().Exited(n.Name(), m.Exit)
		events := []supervise.Event{supervise.RankEnded{Exit: &m.Exit}}
		g, _ := f.groupOf(m.Exit.Rank)
		if g != nil {
			g.times.exited(n, m.Exit)
		}
		if g != nil && m.Exit.Failed() {
			g.hasFailedRank = true
			f.recordFailedRank(g, m.Exit.Rank-g.first)
		}
		return append(events, f.rankEnded(n, m.Exit.Rank)...)
	case *wire.HelperSignaled:
		return []supervise.Event{supervise.HelperSignaled{Node: n.key, Signal: job.Signal(m.Signal), Why: m.Why}}
	case *wire.ProcessesGone:
		return []supervise.Event{supervise.NodeProcessesGone{Node: n.key}}
	case *wire.IPCCleaned:
		f.leftoversFreed(n, m)
	case *wire.Drained:
		f.usage.orphans[n.key], f.usage.keptSessions[n.key], n.drained = m.Orphans, m.KeptSessions, true
		if !n.ended.IsZero() {
			f.env.Trace.Add(trace.Row{Host: n.Name()}, trace.End, n.ended)
		}
		return []supervise.Event{supervise.NodeDrained{Node: n.key}}
	case *wire.RankStates:
		f.addNodeStates(n.key, m.Ranks)
	case *wire.ControlRequest:
		return f.handleControl(n, m)
	case *wire.Fence:
		return f.handleFence(n, m)
	case *wire.NameRequest:
		f.handleName(n, m)
	case *wire.Spawn:
		f.handleSpawn(n, m)
	case *wire.RankMapRequest:
		n.Send(f.rankMapOf(n, m))
	case *wire.Notify:
		f.forwardEvent(n, m)
	case *wire.ShowHelp:
		f.showHelp(n, m)
	case *wire.Fetch:
		f.forwardFetch(n, m)
	case *wire.Fetched:
		f.forwardFetched(m)
	case *wire.PMITrace:
		f.recordPMILine(m.Rank, m.Line)
	case *wire.PMIReport:
		if m.Event == wire.PMIWaits || m.Event == wire.PMIxWaits {
			return f.waits(n, m)
		}
		if g, _ := f.groupOf(m.Rank); g == nil || !g.killed {
			return []supervise.Event{supervise.Failure{Kind: pmiCauses[m.Event], Rank: m.Rank, Code: m.Code, Text: m.Text}}
		}
	case *wire.ClaimsChanged, *wire.QueuePosition: // late replies to a request that waited
	default:
		f.env.Log.Warn().Str("node", n.Name()).Msgf("unexpected %T", m)
	}
	return nil
}

// pmiCauses maps PMI events to causes.
var pmiCauses = map[wire.PMIEvent]supervise.Kind{
	wire.PMIAborted:       supervise.MPIAbort,
	wire.PMIBarrierBroken: supervise.PMIBarrierBroken,
	wire.PMIMalformed:     supervise.PMIMalformed,
	wire.PMIDisconnected:  supervise.PMIDisconnected,
}

// carryOut carries out the actions that Step returned, and reports whether the job is finished.
func (f *runningJob) carryOut(state *supervise.State, actions []supervise.Action) (finished bool) {
	for _, action := range actions {
		switch a := action.(type) {
		case supervise.SignalAllRanks:
			f.sendAll(&wire.Signal{Number: int(a.Signal)})
		case supervise.EndAll:
			f.fences.Fail(errJobEnding)
			f.cancelSearch()
			f.sendAll(&wire.EndJob{Linger: a.Linger, Grace: a.Grace})
		case supervise.InspectRanks:
			f.inspectRanks(a)
		case supervise.HoldRanks:
			f.holdRanks(a)
		case supervise.RequestCheckpoint:
			f.requestCheckpoint(a.To)
		case supervise.FindMoveTarget:
			f.startMove(a.By)
		case supervise.SendReply:
			f.sendReply(a)
		case supervise.BatchLine:
			fmt.Fprintln(f.env.Err, format.EscapeSentence(a.Text))
		case supervise.ReportLine:
			f.env.Report(a.Text)
		case supervise.Suspend:
			f.suspendJob(state)
		case supervise.Finish:
			finished = true
		}
	}
	return finished
}

func (f *runningJob) sendAll(m wire.Message) {
	for _, n := range f.nodes {
		n.Send(m)
	}
}

// inspectRanks asks all nodes what their ranks are doing. The states are reported when all nodes
// have replied or the timeout has passed.
func (f *runningJob) inspectRanks(a supervise.InspectRanks) {
	running := f.statesQuery != nil
	if !running {
		f.statesQuery = &statesQuery{waiting: make(map[int]bool)}
	}
	if a.Requester == nil {
		f.statesQuery.forUser = true
	} else {
		f.statesQuery.requesters = append(f.statesQuery.requesters, *a.Requester)
	}
	if running {
		return
	}
	for i, n := range f.nodes {
		if n.lost == nil {
			f.statesQuery.waiting[i] = true
		}
	}
	f.sendAll(&wire.InspectRanks{Stacks: a.Stacks})
	timedOut, timeout := statesTimedOut{f.statesQuery}, statesTimeout
	if a.Stacks {
		timeout += wire.StackDumpTime
	}
	time.AfterFunc(timeout, func() { f.events.Put(timedOut) })
}

// addNodeStates adds the rank states that a node reported. If the node was lost, ranks is nil.
func (f *runningJob) addNodeStates(node int, ranks []job.RankState) {
	if f.statesQuery == nil {
		return
	}
	f.statesQuery.ranks = append(f.statesQuery.ranks, ranks...)
	if delete(f.statesQuery.waiting, node); len(f.statesQuery.waiting) == 0 {
		f.reportStates()
	}
}

// reportStates reports the collected rank states, if a query is in progress.
func (f *runningJob) reportStates() {
	if f.statesQuery != nil {
		if f.statesQuery.forUser {
			fmt.Fprint(f.env.Err, "mpiexec: what each rank is doing:\n"+formatRankStates(f.rankNodes().nodeNames(), f.statesQuery.ranks, f.groupFirsts)+formatStacks(f.statesQuery.ranks, f.groupFirsts))
		}
		f.replyStates()
		for i := range f.statesQuery.waiting {
			f.nodes[i].StopWaitingFor(&wire.InspectRanks{})
		}
		f.statesQuery = nil
	}
}

// stopFlushTimeout is how long a stop (SIGTSTP) waits until queued messages are sent to the hosts
// (TRUST-34).
const stopFlushTimeout = time.Second

// flushNodes waits until all queued messages are sent, at most for timeout.
func (f *runningJob) flushNodes(timeout time.Duration) {
	written := make(chan struct{})
	go func() {
		var writing sync.WaitGroup
		for _, n := range f.nodes {
			writing.Go(n.Flush)
		}
		writing.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(timeout):
	}
}

// suspendJob stops the whole job until the user continues it (SIG-5).
func (f *runningJob) suspendJob(state *supervise.State) {
	f.sendAll(&wire.Hold{Why: job.HoldLauncherStopped, On: true})
	f.flushNodes(stopFlushTimeout)
	stopped := f.env.StopTimes.RunStopped(f.env.Suspend)
	state.Shift(stopped)
	f.checkpoints.state.Shift(stopped, state.End())
	for _, n := range f.nodes {
		n.ShiftDeadlines(stopped)
	}
	f.sendAll(&wire.Hold{Why: job.HoldLauncherStopped})
}
