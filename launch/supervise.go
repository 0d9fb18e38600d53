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
	"remshell/launch/words"
	"remshell/trace"
	"remshell/usererr"
	"remshell/wire"
)

// supervise runs the job to its end: events in, Step, actions out.
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
	telling := newInterimReporter(f.env)
	for finished := false; !finished; {
		events := f.events.Take(ctx, earlier(earlier(telling.due, f.checkpoints.nextTime()), earlier(f.helpTexts.NextReport(), state.Next())))
		if len(events) == 0 {
			events = []any{supervise.Tick{}}
			if ctx.Err() != nil {
				events, ctx = []any{supervise.Signaled{Signal: cancelSignal(ctx)}}, context.WithoutCancel(ctx)
			}
		}
		for i, event := range events {
			events[i] = nil
			for _, news := range f.translate(event) {
				finished = f.carryOut(&state, state.Step(news, time.Now())) || finished
			}
			f.nextSpawn()
			f.searchMoveTarget()
			f.checkpoints.update(time.Now())
		}
		telling.reportIfDue(f)
		f.sayLines(f.helpTexts.TakeDue(time.Now()))
	}
	f.endOpenSteps()
	f.endSearch()
	f.abandonMove()
	lasts := reserve.MayHaveNextAttempt(req)
	if !lasts {
		f.sendAll(&wire.Bye{})
	}
	for _, g := range f.groups {
		g.bindings.reportNow()
	}
	f.reportStates()
	f.sayLines(f.helpTexts.TakeRest())
	if state.ShouldAskBatch() && f.env.BatchState != nil && f.env.BatchState() == batch.Over {
		state.BlameBatch(time.Now())
	}
	unread := f.streams.SeekStdinBack()
	again := f.decideRestart(&state)
	if lasts {
		f.endConversations(again)
	}
	told := f.reportCause(&state)
	if again {
		f.writeTrace()
		return f.result(&state), nil
	}
	f.waitForStdout(ctx, &state)
	if !told { // writing the rest may have failed
		f.reportCause(&state)
	}
	result := f.result(&state)
	f.writeTrace()
	f.reportDetails(&state, req, result)
	if unread > 0 && result.Code == job.ExitOK && f.env.UnreadInput != nil {
		f.env.UnreadInput(unread)
	}
	f.env.tellSlowest()
	f.waitForPrinter(ctx, &state, f.env.Err)
	return result, nil
}

// batchSystem is the batch system whose job this is.
func batchSystem(rm *job.RM) supervise.BatchJob {
	if rm == nil {
		return supervise.BatchJob{}
	}
	return supervise.BatchJob{System: rm.Name, Job: rm.Job, End: rm.End}
}

// cancelSignal is the signal that cancelled ctx: one may come between the last check of a
// start and the moment when supervision takes the signals.
func cancelSignal(ctx context.Context) job.Signal {
	var cancelled *reserve.SignalError
	if errors.As(context.Cause(ctx), &cancelled) {
		return signalOnNodes(cancelled.Signal)
	}
	return job.SIGTERM
}

// drainTimeout is how long output may take that nobody seems to read, when a job was
// ended from outside (IO-10).
const drainTimeout = 2 * time.Second

// reportCause says what ended the job, if there is a cause.
func (f *runningJob) reportCause(state *supervise.State) bool {
	report := state.Report(func(rank int) supervise.RankProfile { return f.rankProfile(state, rank) })
	if report == "" {
		return false
	}
	f.env.reportFailure(strings.Split(report, "\n")...)
	return true
}

// reportDetails says at the end what the user wanted to know beside the cause, and what he
// should.
func (f *runningJob) reportDetails(state *supervise.State, req job.Request, result job.Result) {
	_, _, first := f.rankPlan(0)
	if note := state.NotOurMPI(first.Argv[0]); note != "" {
		f.env.Report(note)
	}
	if note := state.StuckInFinalize(); note != "" {
		f.env.Report(note)
	}
	f.sayLines(words.FormatKeptSessions(result.NodeTotals))
	if req.EndPolicy.ReportExitCodes {
		for _, line := range state.ExitCodes() {
			fmt.Fprintf(f.env.Err, "mpiexec: %s\n", line)
		}
	}
	if req.EndPolicy.UsageReport != "" {
		fmt.Fprint(f.env.Err, words.FormatUsage(req.Job, req.EndPolicy, result, f.groupFirsts))
	}
}

// result is what came of the job.
func (f *runningJob) result(state *supervise.State) job.Result {
	r := f.rankResults(&state.Usage)
	r.Code, r.Reason = state.ExitCode(), state.Cause.Reason()
	if state.Cause != nil {
		r.Cause = state.Cause.Text
	}
	return r
}

// rankResults is what is known of ranks and nodes.
func (f *runningJob) rankResults(tally *supervise.UsageTotals) job.Result {
	where := f.rankNodes()
	r := job.Result{Starts: f.usage.allStarts(where), Connections: f.connections}
	r.Exits, r.NodeTotals = f.usage.totals(where, f.state.Exits)
	r.Usage = f.usage.jobUsage(where, r, tally)
	r.Leftovers = f.usage.leftovers
	return r
}

// printerDone says that a printer has written all it had.
type printerDone struct{ printer *stdio.Printer }

// waitForPrinter waits until a printer has written everything. That may take as long as its
// reader likes, if the ranks ended by themselves; a signal always ends the wait, and who
// presses ^C thrice waits for no terminal at all.
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

// waitForStdout waits until standard output has all that ranks have written.
func (f *runningJob) waitForStdout(ctx context.Context, state *supervise.State) {
	writing := f.env.Trace.Begin(trace.Row{}, trace.Output)
	f.waitForPrinter(ctx, state, f.env.Out)
	writing.End(nil)
}

// translate turns what a node said into what supervision has to judge, if anything.
func (f *runningJob) translate(event any) []supervise.Event {
	switch e := event.(type) {
	case node.NodeMessage:
		if answersReservation(e.Message) {
			f.search.deliver(e)
			return nil
		}
		n := f.members[e.From]
		if n == nil {
			return nil // it has no part in the job: it was dismissed, or is not taken in yet
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
			return nil // it was dismissed, or is not taken in yet
		}
		if n.lost != nil {
			return nil // we have given it up before
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

// answersReservation reports whether a message is for a reservation, also that of a spawn.
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
		news := []supervise.Event{supervise.RankEnded{Exit: &m.Exit}}
		g, _ := f.groupOf(m.Exit.Rank)
		if g != nil {
			g.times.exited(n, m.Exit)
		}
		if g != nil && m.Exit.Failed() {
			g.hasFailedRank = true
			f.recordFailedRank(g, m.Exit.Rank-g.first)
		}
		return append(news, f.rankEnded(n, m.Exit.Rank)...)
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
	case *wire.ClaimsChanged, *wire.QueuePosition: // late news for a request that waited
	default:
		f.env.Log.Warn().Str("node", n.Name()).Msgf("unexpected %T", m)
	}
	return nil
}

// pmiCauses is what the events of PMI are for supervision.
var pmiCauses = map[wire.PMIEvent]supervise.Kind{
	wire.PMIAborted:       supervise.MPIAbort,
	wire.PMIBarrierBroken: supervise.PMIBarrierBroken,
	wire.PMIMalformed:     supervise.PMIMalformed,
	wire.PMIDisconnected:  supervise.PMIDisconnected,
}

// carryOut carries out what Step wants, and reports whether that was the end.
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

// inspectRanks asks all nodes what their ranks are doing. What they answer is told when all
// have, or patience ends.
func (f *runningJob) inspectRanks(a supervise.InspectRanks) {
	under := f.statesQuery != nil
	if !under {
		f.statesQuery = &statesQuery{waiting: make(map[int]bool)}
	}
	if a.Requester == nil {
		f.statesQuery.forUser = true
	} else {
		f.statesQuery.requesters = append(f.statesQuery.requesters, *a.Requester)
	}
	if under {
		return
	}
	for i, n := range f.nodes {
		if n.lost == nil {
			f.statesQuery.waiting[i] = true
		}
	}
	f.sendAll(&wire.InspectRanks{Stacks: a.Stacks})
	late, patience := statesTimedOut{f.statesQuery}, statesTimeout
	if a.Stacks {
		patience += wire.StackDumpTime
	}
	time.AfterFunc(patience, func() { f.events.Put(late) })
}

// addNodeStates takes what a node told of its ranks, or its loss.
func (f *runningJob) addNodeStates(node int, ranks []job.RankState) {
	if f.statesQuery == nil {
		return
	}
	f.statesQuery.ranks = append(f.statesQuery.ranks, ranks...)
	if delete(f.statesQuery.waiting, node); len(f.statesQuery.waiting) == 0 {
		f.reportStates()
	}
}

// reportStates tells what is known of the ranks, if somebody wanted to know.
func (f *runningJob) reportStates() {
	if f.statesQuery != nil {
		if f.statesQuery.forUser {
			fmt.Fprint(f.env.Err, "mpiexec: what each rank is doing:\n"+words.FormatRankStates(f.rankNodes().nodeNames(), f.statesQuery.ranks, f.groupFirsts)+words.FormatStacks(f.statesQuery.ranks, f.groupFirsts))
		}
		f.replyStates()
		for i := range f.statesQuery.waiting {
			f.nodes[i].StopWaitingFor(&wire.InspectRanks{})
		}
		f.statesQuery = nil
	}
}

// stopFlushTimeout is how long a stop waits for hosts to take what was sent to them (TRUST-34).
const stopFlushTimeout = time.Second

// flushNodes waits until what was sent has been written, but for no host longer than patience.
func (f *runningJob) flushNodes(patience time.Duration) {
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
	case <-time.After(patience):
	}
}

// suspendJob stops the whole job until somebody continues it (SIG-5).
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
