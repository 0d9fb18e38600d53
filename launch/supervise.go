package launch

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"remshell/job"
	"remshell/wire"
)

// supervise runs the job to its end: events in, Step, actions out.
func (f *fleet) supervise(ctx context.Context, req job.Request) (job.Result, error) {
	state := NewState(f.plan, Rules{
		Grace: req.Limits.Grace, Timeout: req.Limits.Run, Ends: req.Ends,
	}, time.Now())
	for finished := false; !finished; {
		events := f.events.take(ctx, state.Next())
		if len(events) == 0 {
			events = []any{Tick{}}
			if ctx.Err() != nil {
				events, ctx = []any{Signaled{syscall.SIGTERM}}, context.WithoutCancel(ctx)
			}
		}
		for _, event := range events {
			for _, news := range f.translate(event) {
				finished = f.act(&state, state.Step(news, time.Now())) || finished
			}
		}
	}
	for _, n := range f.nodes {
		n.conn.Send(&wire.Bye{})
	}
	if state.signals < 3 { // who presses ^C thrice waits for no terminal
		f.finishOutput()
	}
	return job.Result{Code: state.ExitCode(), Report: state.Report(), Exits: state.Exits}, nil
}

// finishOutput waits until all that the ranks wrote is written here too.
func (f *fleet) finishOutput() {
	f.out.close()
	f.err.close()
	<-f.out.done
	<-f.err.done
}

// translate turns what a node said into what supervision has to judge, if anything.
func (f *fleet) translate(event any) []any {
	switch e := event.(type) {
	case said:
		return f.translateMessage(e.from, e.m)
	case ended:
		if e.from.index < 0 {
			return nil // it was dismissed
		}
		return []any{NodeLost{e.from.index, reasonOf(e.err)}}
	}
	return []any{event}
}

func (f *fleet) translateMessage(n *node, m wire.Message) []any {
	switch m := m.(type) {
	case *wire.Started:
		if m.Err != "" {
			return []any{NotStarted{m.Rank, m.Code, m.Err, m.Hint}}
		}
	case *wire.Exited:
		f.out.put(piece{rank: m.Exit.Rank, end: true})
		f.err.put(piece{rank: m.Exit.Rank, end: true})
		news := []any{Exited{m.Exit}}
		if doubt, stuck := f.hub.left(n, m.Exit.Rank); stuck {
			news = append(news, doubt)
		}
		return news
	case *wire.Drained:
		return []any{NodeDrained{n.index, m.Killed}}
	case *wire.Fence:
		if doubt, stuck := f.hub.join(n, m); stuck {
			return []any{doubt}
		}
	case *wire.PMI:
		return translatePMI(m)
	default:
		f.env.Log.Warn().Str("node", n.def.Name).Msgf("unexpected %T", m)
	}
	return nil
}

func translatePMI(m *wire.PMI) []any {
	switch m.Event {
	case wire.PMIAborted:
		return []any{Aborted{m.Rank, m.Code, m.Text}}
	case wire.PMILost:
		return []any{Suspicion{m.Rank, fmt.Sprintf("rank %d closed its PMI connection without MPI_Finalize", m.Rank)}}
	}
	return []any{Suspicion{m.Rank, m.Text}}
}

// act carries out what Step wants, and reports whether that was the end.
func (f *fleet) act(state *State, actions []Action) (finished bool) {
	for _, action := range actions {
		switch a := action.(type) {
		case SignalAll:
			f.tell(&wire.Signal{Number: int(a.Number)})
		case EndAll:
			f.hub.Fail(fmt.Errorf("the job is ending"))
			f.tell(&wire.End{Linger: a.Linger, Grace: a.Grace})
		case Say:
			f.env.Say(a.Text)
		case Suspend:
			f.suspend(state)
		case Finish:
			finished = true
		}
	}
	return finished
}

func (f *fleet) tell(m wire.Message) {
	for _, n := range f.nodes {
		n.conn.Send(m)
	}
}

// suspend stops the whole job until somebody continues it (SIG-5). We stop by
// SIGSTOP, which nobody can catch, and go on behind it when we are continued.
func (f *fleet) suspend(state *State) {
	f.tell(&wire.Signal{Number: int(syscall.SIGSTOP)})
	for _, n := range f.nodes {
		n.conn.Flush()
	}
	began := time.Now()
	syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	state.Shift(time.Since(began))
	f.tell(&wire.Signal{Number: int(syscall.SIGCONT)})
}
