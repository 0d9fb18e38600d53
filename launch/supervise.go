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
func (f *fleet) supervise(ctx context.Context, req job.Request, startBy time.Time) (job.Result, error) {
	state := NewState(f.plan, Rules{
		Grace: req.Limits.Grace, Timeout: req.Limits.Run, Ends: req.Ends, StartBy: startBy,
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
	f.finishOutput(ctx, &state)
	return job.Result{Code: state.ExitCode(), Report: state.Report(), Exits: state.Exits}, nil
}

// drainTime is how long output may take that nobody seems to read, when a job was
// ended before its time (IO-10).
const drainTime = 2 * time.Second

// printed says that all output of the ranks was written.
type printed struct{}

// finishOutput waits until all that the ranks wrote to stdout is written here too. If
// the job ended well that may take as long as its reader likes, but a signal ends the
// wait.
func (f *fleet) finishOutput(ctx context.Context, state *State) {
	if state.signals > 2 {
		return // who presses ^C thrice waits for no terminal
	}
	var deadline time.Time
	if state.ExitCode() != 0 {
		deadline = time.Now().Add(drainTime)
	}
	f.env.Out.Close()
	go func() {
		<-f.env.Out.Done()
		f.events.put(printed{})
	}()
	for {
		events := f.events.take(ctx, deadline)
		if len(events) == 0 {
			return
		}
		for _, event := range events {
			switch e := event.(type) {
			case printed:
				return
			case StdoutGone:
				state.Step(e, time.Now())
			case Signaled:
				if e.Number == syscall.SIGINT || e.Number == syscall.SIGTERM || e.Number == syscall.SIGHUP {
					state.blame(e.Number)
					return
				}
			}
		}
	}
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
		return []any{Started{m.Rank}}
	case *wire.Exited:
		f.env.Out.put(piece{rank: m.Exit.Rank, end: true})
		f.env.Err.put(piece{rank: m.Exit.Rank, end: true})
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
	case wire.PMIJunk:
		return []any{Junk{m.Rank, m.Text}}
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

// suspend stops the whole job until somebody continues it (SIG-5).
func (f *fleet) suspend(state *State) {
	f.tell(&wire.Signal{Number: int(syscall.SIGSTOP)})
	for _, n := range f.nodes {
		n.conn.Flush()
	}
	began := time.Now()
	f.env.Suspend()
	state.Shift(time.Since(began))
	f.tell(&wire.Signal{Number: int(syscall.SIGCONT)})
}
