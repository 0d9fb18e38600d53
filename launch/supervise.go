package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"remshell/batch"
	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/launch/words"
	"remshell/show"
	"remshell/timeline"
	"remshell/wire"
)

// supervise runs the job to its end: events in, Step, actions out.
func (f *fleet) supervise(ctx context.Context, startBy time.Time) (job.Result, error) {
	req := f.req
	state := supervise.NewState(f.plan, supervise.Rules{
		Grace: req.Limits.Grace, Stacks: wire.StacksTime, Timeout: req.Limits.Run, Limits: req.Bounds, Origins: req.Origins, Ends: req.Ends, StartBy: startBy, Since: f.since, Signals: signalsOnNodes(req.Signals), RM: holder(req.RM),
		Warn: warningOnNodes(req.Limits.Warn), Margin: req.Limits.Margin, Paces: f.paces,
	}, time.Now())
	f.state = &state
	defer f.watchSilences()()
	f.saves = f.newCheckpoints()
	defer f.saves.close()
	telling := newTelling(f.env)
	for finished := false; !finished; {
		events := f.events.Take(ctx, sooner(sooner(telling.due, f.saves.next()), sooner(f.repeats.Next(), state.Next())))
		if len(events) == 0 {
			events = []any{supervise.Tick{}}
			if ctx.Err() != nil {
				events, ctx = []any{supervise.Signaled{Signal: signalOf(ctx)}}, context.WithoutCancel(ctx)
			}
		}
		for i, event := range events {
			events[i] = nil
			for _, news := range f.translate(event) {
				finished = f.act(&state, state.Step(news, time.Now())) || finished
			}
			f.nextSpawn()
			f.nextMove()
			f.saves.turn(time.Now())
		}
		telling.note(f)
		f.sayAll(f.repeats.Due(time.Now()))
	}
	f.settleTimes()
	f.endSeeking()
	f.endMoving()
	lasts := reserve.Lasts(req)
	if !lasts {
		f.tell(&wire.Bye{})
	}
	for _, g := range f.groups {
		g.bound.tell()
	}
	f.showStates()
	f.sayAll(f.repeats.Rest())
	if state.AskRM() && f.env.RMState != nil && f.env.RMState() == batch.Over {
		state.BlameRM(time.Now())
	}
	unread := f.streams.GiveBack()
	again := f.decide(&state)
	if lasts {
		f.renew(again)
	}
	told := f.report(&state)
	if again {
		f.writeTrace()
		return f.result(&state), nil
	}
	f.writeOut(ctx, &state)
	if !told { // writing the rest may have failed
		f.report(&state)
	}
	result := f.result(&state)
	f.writeTrace()
	f.tellMore(&state, req, result)
	if unread > 0 && result.Code == job.ExitOK && f.env.Unread != nil {
		f.env.Unread(unread)
	}
	f.env.tellSlowest()
	f.finish(ctx, &state, f.env.Err)
	return result, nil
}

// holder is the batch system whose job this is.
func holder(rm *job.RM) supervise.RM {
	if rm == nil {
		return supervise.RM{}
	}
	return supervise.RM{System: rm.Name, Job: rm.Job, End: rm.End}
}

// signalOf is the signal that cancelled ctx: one may come between the last check of a
// start and the moment when supervision takes the signals.
func signalOf(ctx context.Context) job.Signal {
	var cancelled *reserve.Cancelled
	if errors.As(context.Cause(ctx), &cancelled) {
		return onNodes(cancelled.Signal)
	}
	return job.SIGTERM
}

// drainTime is how long output may take that nobody seems to read, when a job was
// ended from outside (IO-10).
const drainTime = 2 * time.Second

// report says what ended the job, if there is a cause.
func (f *fleet) report(state *supervise.State) bool {
	report := state.Report(func(rank int) supervise.Profile { return f.profile(state, rank) })
	if report == "" {
		return false
	}
	f.env.fail(strings.Split(report, "\n")...)
	return true
}

// tellMore says at the end what the user wanted to know beside the cause, and what he
// should.
func (f *fleet) tellMore(state *supervise.State, req job.Request, result job.Result) {
	_, _, first := f.rankPlan(0)
	if note := state.Alone(first.Argv[0]); note != "" {
		f.env.Say(note)
	}
	if note := state.Stuck(); note != "" {
		f.env.Say(note)
	}
	f.sayAll(words.Staying(result.Hosts))
	if req.Ends.Codes {
		for _, line := range state.ExitCodes() {
			fmt.Fprintf(f.env.Err, "mpiexec: %s\n", line)
		}
	}
	if req.Ends.Usage != "" {
		fmt.Fprint(f.env.Err, words.Usage(req.Job, req.Ends, result, f.firsts))
	}
}

// result is what came of the job.
func (f *fleet) result(state *supervise.State) job.Result {
	r := f.gathered(&state.Tally)
	r.Code, r.Reason = state.ExitCode(), state.Cause.Reason()
	if state.Cause != nil {
		r.Cause = state.Cause.Text
	}
	return r
}

// gathered is what is known of ranks and nodes.
func (f *fleet) gathered(tally *supervise.Tally) job.Result {
	where := f.placement()
	r := job.Result{Starts: f.account.told(where), Connects: f.connects}
	r.Exits, r.Hosts = f.account.settle(where, f.state.Exits)
	r.Used = f.account.used(where, r, tally)
	r.Remnants = f.account.left
	return r
}

// printed says that a printer has written all it had.
type printed struct{ p *stdio.Printer }

// finish waits until a printer has written everything. That may take as long as its
// reader likes, if the ranks ended by themselves; a signal always ends the wait, and who
// presses ^C thrice waits for no terminal at all.
func (f *fleet) finish(ctx context.Context, state *supervise.State, p *stdio.Printer) {
	p.Close()
	go func() {
		<-p.Done()
		f.events.Put(printed{p})
	}()
	began := time.Now()
	for state.Patient() {
		var deadline time.Time
		if state.Hurried() {
			deadline = began.Add(drainTime)
		}
		events := f.events.Take(ctx, deadline)
		if len(events) == 0 {
			return
		}
		for _, event := range events {
			switch e := event.(type) {
			case printed:
				if e.p == p {
					return
				}
			case supervise.Failed:
				if e.Kind.Late() {
					state.Step(e, time.Now())
				}
			case supervise.Signaled:
				if e.Signal == job.SIGINT || e.Signal == job.SIGTERM || e.Signal == job.SIGHUP {
					state.Blame(e.Signal, time.Now())
					return
				}
			}
		}
	}
}

// writeOut waits until standard output has all that ranks have written.
func (f *fleet) writeOut(ctx context.Context, state *supervise.State) {
	writing := f.env.Timeline.Begin(timeline.Row{}, timeline.Output)
	f.finish(ctx, state, f.env.Out)
	writing.End(nil)
}

// translate turns what a node said into what supervision has to judge, if anything.
func (f *fleet) translate(event any) []supervise.Event {
	switch e := event.(type) {
	case node.Message:
		if answersReservation(e.M) {
			f.seeking.hear(e)
			return nil
		}
		n := f.members[e.From]
		if n == nil {
			return nil // it has no part in the job: it was dismissed, or is not taken in yet
		}
		return f.translateMessage(n, e.M)
	case spawnPlaced:
		return f.spawnPlaced(e)
	case moveFound:
		f.moveFound(e)
		return nil
	case node.Disconnected:
		f.seeking.hear(e)
		n := f.members[e.From]
		if n == nil && f.spareLost(e) {
			return nil
		}
		if n == nil {
			f.seeking.lost(e.From)
			return nil // it was dismissed, or is not taken in yet
		}
		if n.lost != nil {
			return nil // we have given it up before
		}
		n.lost, f.cutOff = e.Err, time.Now()
		f.answered(n.key, nil)
		f.cut(n)
		lost := supervise.NodeLost{Node: n.key, Why: fault.Reason(e.Err)}
		if node.Violates(e.Err) {
			return []supervise.Event{supervise.NodeCut{NodeLost: lost}}
		}
		return []supervise.Event{lost}
	case supervise.Asked: // it has waited for a checkpoint
		return []supervise.Event{e}
	case commandOver:
		f.saves.over(e)
		return nil
	case deadNews:
		e.tellDead()
		return nil
	case lookAround:
		f.lookAround(time.Now())
		return nil
	case rmSaid:
		return f.rmSaid(e, time.Now())
	case statesLate:
		if e.of == f.states {
			f.showStates()
		}
		return nil
	case reserve.Leftover:
		e.Drop()
		return nil
	}
	return []supervise.Event{event}
}

// answersReservation reports whether a message is for a reservation, also that of a spawn.
func answersReservation(m wire.Message) bool {
	switch m.(type) {
	case *wire.Laid, *wire.Sought, *wire.Surveyed, *wire.Prepared, *wire.Refused, *wire.Taken, *wire.Wanted, *wire.Took, *wire.Staged:
		return true
	}
	return false
}

func (f *fleet) translateMessage(n *member, m wire.Message) []supervise.Event {
	switch m := m.(type) {
	case *wire.Started:
		return f.started(n, m)
	case *wire.Sampled:
		f.account.sampled(m.Ranks)
		return []supervise.Event{supervise.Sampled{Node: n.key, Sample: m.Host, Ranks: m.Ranks}}
	case *wire.Exceeded:
		return []supervise.Event{supervise.Exceeded{Node: n.key, Rank: m.Rank, What: m.Bound.Resource, Used: m.Used, Most: m.Bound.Most}}
	case *wire.Exited:
		f.streams.Ended(m.Exit.Rank)
		f.env.watcher().Exited(n.Name(), m.Exit)
		news := []supervise.Event{supervise.Exited{Exit: &m.Exit}}
		g, _ := f.groupOf(m.Exit.Rank)
		if g != nil {
			g.life.exited(n, m.Exit)
		}
		if g != nil && m.Exit.Failed() {
			g.failed = true
			f.noteDead(g, m.Exit.Rank-g.first)
		}
		return append(news, f.rankGone(n, m.Exit.Rank)...)
	case *wire.Caught:
		return []supervise.Event{supervise.NodeCaught{Node: n.key, Signal: job.Signal(m.Signal), Why: m.Why}}
	case *wire.Emptied:
		return []supervise.Event{supervise.NodeEmptied{Node: n.key}}
	case *wire.Cleaned:
		f.cleaned(n, m)
	case *wire.Drained:
		f.account.orphans[n.key], f.account.stay[n.key], n.over = m.Orphans, m.Sessions, true
		if !n.ended.IsZero() {
			f.env.Timeline.Add(timeline.Row{Host: n.Name()}, timeline.End, n.ended)
		}
		return []supervise.Event{supervise.NodeDrained{Node: n.key}}
	case *wire.States:
		f.answered(n.key, m.Ranks)
	case *wire.Ask:
		return f.heard(n, m)
	case *wire.Fence:
		return f.fence(n, m)
	case *wire.Name:
		f.named(n, m)
	case *wire.Spawn:
		f.spawn(n, m)
	case *wire.Peers:
		n.Send(f.peered(n, m))
	case *wire.Notify:
		f.notify(n, m)
	case *wire.Utter:
		f.utter(n, m)
	case *wire.Fetch:
		f.fetch(n, m)
	case *wire.Fetched:
		f.fetched(m)
	case *wire.Trace:
		f.record(m.Rank, m.Line)
	case *wire.PMI:
		if m.Event == wire.PMIWaits || m.Event == wire.PMIxWaits {
			return f.waits(n, m)
		}
		if g, _ := f.groupOf(m.Rank); g == nil || !g.pruned {
			return []supervise.Event{supervise.Failed{Kind: pmiCauses[m.Event], Rank: m.Rank, Code: m.Code, Text: m.Text}}
		}
	case *wire.Changed, *wire.Queued: // late news for a request that waited
	default:
		f.env.Log.Warn().Str("node", n.Name()).Msgf("unexpected %T", m)
	}
	return nil
}

// pmiCauses is what the events of PMI are for supervision.
var pmiCauses = map[wire.PMIEvent]supervise.Kind{
	wire.PMIAborted: supervise.MPIAbort,
	wire.PMIBroken:  supervise.PMIBroken,
	wire.PMIJunk:    supervise.PMIJunk,
	wire.PMILost:    supervise.PMILost,
}

// act carries out what Step wants, and reports whether that was the end.
func (f *fleet) act(state *supervise.State, actions []supervise.Action) (finished bool) {
	for _, action := range actions {
		switch a := action.(type) {
		case supervise.SignalAll:
			f.tell(&wire.Signal{Number: int(a.Signal)})
		case supervise.EndAll:
			f.hub.Fail(errEnding)
			f.stopSeeking()
			f.tell(&wire.End{Linger: a.Linger, Grace: a.Grace})
		case supervise.Inspect:
			f.inspect(a)
		case supervise.Hold:
			f.hold(a)
		case supervise.Checkpoint:
			f.checkpoint(a.To)
		case supervise.Move:
			f.migrate(a.By)
		case supervise.Reply:
			f.reply(a)
		case supervise.Cry:
			fmt.Fprintln(f.env.Err, show.Clean(a.Text))
		case supervise.Say:
			f.env.Say(a.Text)
		case supervise.Suspend:
			f.suspend(state)
		case supervise.Finish:
			finished = true
		}
	}
	return finished
}

func (f *fleet) tell(m wire.Message) {
	for _, n := range f.nodes {
		n.Send(m)
	}
}

// inspect asks all nodes what their ranks are doing. What they answer is told when all
// have, or patience ends.
func (f *fleet) inspect(a supervise.Inspect) {
	under := f.states != nil
	if !under {
		f.states = &states{waiting: make(map[int]bool)}
	}
	if a.For == nil {
		f.states.told = true
	} else {
		f.states.askers = append(f.states.askers, *a.For)
	}
	if under {
		return
	}
	for i, n := range f.nodes {
		if n.lost == nil {
			f.states.waiting[i] = true
		}
	}
	f.tell(&wire.Inspect{Stacks: a.Stacks})
	late, patience := statesLate{f.states}, statesPatience
	if a.Stacks {
		patience += wire.StacksTime
	}
	time.AfterFunc(patience, func() { f.events.Put(late) })
}

// answered takes what a node told of its ranks, or its loss.
func (f *fleet) answered(node int, ranks []job.RankState) {
	if f.states == nil {
		return
	}
	f.states.ranks = append(f.states.ranks, ranks...)
	if delete(f.states.waiting, node); len(f.states.waiting) == 0 {
		f.showStates()
	}
}

// showStates tells what is known of the ranks, if somebody wanted to know.
func (f *fleet) showStates() {
	if f.states != nil {
		if f.states.told {
			fmt.Fprint(f.env.Err, "mpiexec: what each rank is doing:\n"+words.States(f.placement().names(), f.states.ranks, f.firsts)+words.Stacks(f.states.ranks, f.firsts))
		}
		f.tellStates()
		for i := range f.states.waiting {
			f.nodes[i].GiveUp(&wire.Inspect{})
		}
		f.states = nil
	}
}

// stopPatience is how long a stop waits for hosts to take what was sent to them (TRUST-34).
const stopPatience = time.Second

// flush waits until what was sent has been written, but for no host longer than patience.
func (f *fleet) flush(patience time.Duration) {
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

// suspend stops the whole job until somebody continues it (SIG-5).
func (f *fleet) suspend(state *supervise.State) {
	f.tell(&wire.Hold{Why: job.HoldStopped, On: true})
	f.flush(stopPatience)
	stopped := f.env.Pauses.During(f.env.Suspend)
	state.Shift(stopped)
	f.saves.state.Shift(stopped, state.End())
	for _, n := range f.nodes {
		n.Shift(stopped)
	}
	f.tell(&wire.Hold{Why: job.HoldStopped})
}
