package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/supervise"
	"remshell/plan"
	"remshell/text"
	"remshell/timeline"
)

/*
Lives are the attempts of one job (survive.md 3). Each has a fleet of its own, with fences and
streams of its own; what they share is the terminal, the job's name and its time, and the nodes
that live (renew.go).

	run --> attempt ----> over
	          ^  |
	          |  v  restart.Next
	          |  fence    nothing of the job lives on nodes that were lost, or may
	          |  pause
	          '--'

Claims are given up with each attempt: another job may be faster, and then there is no room.
*/
type lives struct {
	first    job.Request
	env      Env
	signals  *reserve.SignalWatch
	attempts []job.Attempt // that are over
	began    time.Time     // when the first was let go
	cutOff   time.Time     // when the last attempt lost a node
	origin   int64         // of standard input, if it is a file
	read     atomic.Bool   // something of it, if it is none
	gone     atomic.Bool   // our standard output takes no more
	past     int           // attempts that were over before this mpiexec (--resume)
	paces    supervise.Paces
}

// run is one attempt after the other.
func (l *lives) run(ctx context.Context) (job.Result, error) {
	if err := l.fence(ctx, l.env.Remains, time.Now()); err != nil {
		return job.Result{Attempts: l.attempts}, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := l.fleet()
	for {
		result, next, err := l.attempt(ctx, f)
		if l.first.Restart.Several() {
			result.Attempts = l.attempts
		}
		if err != nil || !next.Again {
			return result, err
		}
		old := f
		f = l.fleet()
		f.gap.Store(&gap{len(l.attempts), end})
		f.takeOver(old.kept)
		err = l.between(ctx, f, next.Pause)
		if err != nil {
			f.letGo()
			f.close()
			return result, err
		}
	}
}

// fleet makes that of the next attempt.
func (l *lives) fleet() *fleet {
	env := l.env
	env.In = l.input()
	f := newFleet(env)
	f.paces = l.paces
	return f
}

// attempt is one life of all ranks, from the first connection to the decision about the next.
func (l *lives) attempt(ctx context.Context, f *fleet) (result job.Result, next restart.Decision, err error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	defer f.close()
	life := l.life()
	defer func() { endLife(life, f, err) }()
	place, err := l.reserve(ctx, f)
	defer place.Close()
	if err != nil {
		return job.Result{Connects: place.Connects}, next, err
	}
	if err := f.openStreams(place, func() { l.gone.Store(true) }); err != nil {
		return job.Result{}, next, err
	}
	l.signals.HandOver(func(number syscall.Signal) { f.events.Put(supervise.Signaled{Signal: onNodes(number)}) })
	defer l.signals.TakeBack(f.unheard)
	l.announce(place.Plan)
	f.since = l.began
	if l.env.Began != nil {
		l.env.Began(l.attempts, job.Attempt{Number: len(l.attempts), Began: time.Now(), Nodes: place.Plan.Names(), Size: place.Plan.Size})
	}
	f.start(place)
	if l.gone.Load() {
		f.events.Put(supervise.Failed{Kind: supervise.StdoutGone})
	}
	if l.env.Resized != nil {
		go f.resize(ctx)
	}
	f.decide = func(state *supervise.State) bool {
		next = l.over(f, state)
		return next.Again
	}
	f.moved = func(m restart.Move) (job.Request, []string, string) {
		return restart.Moved(l.first, l.attempts, job.Attempt{Nodes: f.plan.Names(), Size: f.plan.Size, Spares: spareNames(f.spares)}, m)
	}
	result, err = f.supervise(ctx, place.StartBy.Time())
	return result, next, err
}

// over takes in how an attempt has ended, and decides whether it was the last.
func (l *lives) over(f *fleet, state *supervise.State) restart.Decision {
	if l.began.IsZero() {
		l.began = state.Began()
	}
	told := state.ToldToEnd()
	a := job.Attempt{Number: len(l.attempts), Began: state.Began(), Ended: time.Now(), Kind: state.Cause.End(), Reason: state.Cause.Reason(),
		Nodes: f.plan.Names(), Size: f.plan.Size, Exit: state.ExitCode()}
	if state.Cause != nil {
		a.Cause = state.Cause.Text
		if a.Kind == job.ByStart && state.Cause.Node >= 0 {
			a.Failed = []string{f.nodes[state.Cause.Node].Name()}
		}
	}
	for _, n := range f.nodes {
		if n.lost == nil && n.over {
			continue
		}
		a.Lost = append(a.Lost, n.Name())
		if n.lost == nil { // something there cannot be killed
			f.cutOff = a.Ended
		}
	}
	a.Spares = spareNames(f.spares)
	f.into(&a)
	l.attempts, l.cutOff = append(l.attempts, a), f.cutOff
	next := restart.Next(l.first.Restart, l.attempts, rand.Float64())
	if next.Again && told {
		next = restart.Decision{Why: "told to end"}
	}
	switch {
	case next.Again && state.IsMoved():
		state.Restart = &supervise.Restart{}
	case next.Again:
		state.Restart = l.restart(a.Lost)
	case next.Why != "":
		state.Ends = next.Why
		l.tell(job.Again{Event: "giveup", Why: next.Why})
	}
	return next
}

// restart is the attempt that follows one whose nodes were lost: some of these may be used again.
func (l *lives) restart(lost []string) *supervise.Restart {
	r := &supervise.Restart{Of: restart.Of(l.first.Restart, l.attempts)}
	may := make(map[string]bool)
	for _, n := range restart.Request(l.first, l.attempts).Nodes {
		may[n.Name] = n.Out == ""
	}
	for _, name := range lost {
		if may[name] {
			r.Last = append(r.Last, name)
		} else {
			r.Without = append(r.Without, name)
		}
	}
	return r
}

// reserve finds a place for the next attempt. Where there is none, one is looked for, for a while
// (SV-5).
func (l *lives) reserve(ctx context.Context, f *fleet) (*reserve.Reservation, error) {
	ctx, done := l.within(ctx)
	defer done()
	last, pauses := time.Now().Add(restart.Patience), cmp.Or(l.first.Restart.Delay, restart.Delay)
	said := ""
	for {
		kept := f.stillKept()
		f.kept = nil
		place, err := reserve.Reserve(ctx, restart.Request(l.first, l.attempts), f.env.Env, kept...)
		if err == nil || l.begins() || ctx.Err() != nil || !wantsRoom(err) {
			return place, err
		}
		if last := &l.attempts[len(l.attempts)-1]; last.Goes != nil { // what it was moved to was lost since
			last.Goes, f.kept = nil, place.CloseNew()
			continue
		}
		if time.Now().Add(pauses).After(last) {
			why := "no room for " + text.Span(restart.Patience)
			l.tell(job.Again{Event: "giveup", Why: why})
			return place, &fault.Error{Text: fmt.Sprintf("not starting again: %s (%v)", why, err), Code: l.attempts[len(l.attempts)-1].Exit}
		}
		f.kept = place.CloseNew()
		if why := err.Error(); why != said {
			l.env.Say(fmt.Sprintf("no room to start again: %s; trying again for %s", why, text.Span(time.Until(last))))
			said = why
		}
		if err := l.pause(ctx, f, pauses); err != nil {
			f.letGo()
			return place, err
		}
	}
}

// wantsRoom reports whether an attempt failed for want of nodes, or of CPUs, of which there may be more
// later.
func wantsRoom(err error) bool {
	var noPlan *plan.Error
	var noHosts *reserve.HostsError
	return errors.As(err, &noPlan) || errors.As(err, &noHosts)
}

// announce tells where an attempt runs that is not the first.
func (l *lives) announce(p job.Plan) {
	if len(l.attempts) == 0 {
		return
	}
	last, nodes := l.attempts[len(l.attempts)-1], p.Names()
	was := "was " + hostlist.FoldList(last.Nodes)
	if wanted := l.attempts[0].Size; p.Size < wanted {
		was = fmt.Sprintf("%d did not fit", wanted)
	}
	if back := slices.DeleteFunc(slices.Clone(last.Lost), func(name string) bool { return !slices.Contains(nodes, name) }); len(back) > 0 {
		was += "; again with " + hostlist.Fold(back) + ", which was lost"
	}
	l.env.Say(fmt.Sprintf("attempt %d: %s on %s (%s)", len(l.attempts), text.Count(p.Size, "rank"), hostlist.FoldList(nodes), was))
	if l.read.Load() {
		l.env.Say("note: standard input was a pipe; from now on ranks find its end")
		l.read.Store(false)
	}
	l.tell(job.Again{Event: "attempt", Attempt: len(l.attempts), Reason: last.Kind, Lost: last.Lost, Nodes: nodes, Size: p.Size})
}

// between is the time between two attempts: the fence, and the pause.
func (l *lives) between(ctx context.Context, f *fleet, pause time.Duration) error {
	ctx, done := l.within(ctx)
	defer done()
	if err := l.env.Timeline.Do(timeline.Row{}, timeline.Fence, func() error { return l.fence(ctx, l.attempts[len(l.attempts)-1].Lost, l.cutOff) }); err != nil {
		return err
	}
	l.tell(job.Again{Event: "pause", Seconds: pause.Round(time.Millisecond).Seconds()})
	return l.env.Timeline.Do(timeline.Row{}, timeline.Pause, func() error { return l.pause(ctx, f, pause) })
}

// pause waits, unless the job ends. Nodes are kept meanwhile for as long as they may be.
func (l *lives) pause(ctx context.Context, f *fleet, d time.Duration) error {
	left := max(0, time.Until(l.attempts[len(l.attempts)-1].Ended.Add(restart.Keep)))
	if len(f.kept) > 0 && left < d {
		if err := l.sleep(ctx, left); err != nil {
			return err
		}
		f.letGo()
		d -= left
	}
	return l.sleep(ctx, d)
}

// quiet is how long a fence may take until somebody is told of it.
const quiet = 3 * time.Second

// fence waits until nothing of the last attempt can live on the nodes that it has lost, or whose
// mpiexec is gone: two lives of one job must not write the same files (SV-3). Either our helper there
// has seen to it, or a helper that was cut off, then at the latest, has had the time to end its ranks.
func (l *lives) fence(ctx context.Context, lost []string, cutOff time.Time) error {
	if len(lost) == 0 {
		return nil
	}
	where := hostlist.FoldList(lost)
	if l.first.Restart.Fence == 0 {
		l.env.Say(fmt.Sprintf("--restart-fence no: ranks of the job may still run on %s", where))
		return nil
	}
	began, until := time.Now(), cutOff.Add(l.first.Restart.Fence)
	l.tell(job.Again{Event: "fence", Lost: lost, Seconds: time.Until(until).Round(time.Millisecond).Seconds()})
	told := time.AfterFunc(quiet, func() {
		l.env.Say(fmt.Sprintf("waiting until nothing of the job can be left on %s (at most %s)", where, text.Span(until.Sub(began))))
	})
	defer told.Stop()
	for dirty := lost; time.Now().Before(until); {
		if dirty = l.clean(ctx, dirty); len(dirty) == 0 {
			return nil
		}
		if err := l.sleep(ctx, min(time.Second, time.Until(until))); err != nil {
			return err
		}
	}
	return nil
}

// clean ends what a job has left on nodes, and returns those of which that is not known.
func (l *lives) clean(ctx context.Context, nodes []string) (dirty []string) {
	env, req := l.env.Env, l.first
	req.Nodes = append(slices.Clone(req.Nodes), l.env.Former...)
	env.Say = func(string) {}
	signals := make(chan os.Signal)
	close(signals) // they are ours
	env.Signals, env.Progress, env.Reached = signals, nil, nil
	clean := reserve.Clean(ctx, req, env, nodes)
	for _, name := range nodes {
		if !clean[name] {
			dirty = append(dirty, name)
		}
	}
	return dirty
}

// within ends with the time of the job (SV-11): that goes on between attempts.
func (l *lives) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := l.first.Limits.Run
	if limit == 0 || l.began.IsZero() {
		return context.WithCancel(ctx)
	}
	return l.env.Pauses.Within(ctx, time.Until(l.began.Add(limit)), &fault.Error{
		Text: fmt.Sprintf("the job ran longer than -timeout %v, and its ranks had ended", limit), Code: job.ExitTimeout})
}

// sleep waits, unless the job ends.
func (l *lives) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begins reports whether the attempt that is to come is the first of this mpiexec.
func (l *lives) begins() bool { return len(l.attempts) == l.past }

func (l *lives) tell(news job.Again) { l.env.watcher().Again(news) }

// input is the standard input of an attempt (SV-9): a file is read from its start again; what was
// read of anything else is gone.
func (l *lives) input() io.Reader {
	if l.env.In == nil || l.first.Restart.Most == 0 && l.past == 0 {
		return l.env.In
	}
	if file, ok := l.env.In.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			if l.begins() {
				l.origin, _ = file.Seek(0, io.SeekCurrent)
			}
			return io.NewSectionReader(file, l.origin, math.MaxInt64-l.origin)
		}
	}
	if len(l.attempts) > 0 {
		return strings.NewReader("")
	}
	return noting{l.env.In, &l.read}
}

// noting notes whether anything was read.
type noting struct {
	io.Reader
	any *atomic.Bool
}

func (n noting) Read(p []byte) (int, error) {
	got, err := n.Reader.Read(p)
	if got > 0 {
		n.any.Store(true)
	}
	return got, err
}

// spareNames are the names of spares.
func spareNames(spares []reserve.Kept) (names []string) {
	for _, s := range spares {
		names = append(names, s.Name())
	}
	return names
}
