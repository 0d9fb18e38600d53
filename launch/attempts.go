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
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/supervise"
	"remshell/plan"
	"remshell/text"
	"remshell/trace"
	"remshell/usererr"
	"remshell/wire"
)

/*
An attemptLoop runs the attempts of one job (survive.md 3). Each attempt has its own Job, with its own streams and PMI
fences. All attempts share the terminal, the job's name, its time limit, and the nodes that have not failed (renew.go).

	run --> attempt ----> restart.Decide: no other attempt
	          ^  |
	          |  v  restart.Decide: another attempt
	          |  fence    wait until no process of the job can be left on lost nodes
	          |  pause
	          '--'

The fence in the drawing (--restart-fence, waitForLostNodes) is not a fence of PMI (package fence). During the pause,
nodes stay reserved for at most restart.KeepTime. Then their claims are released, and another job may take the CPUs.
*/
type attemptLoop struct {
	request      job.Request
	env          Env
	signals      *reserve.SignalWatch
	attempts     []job.Attempt        // attempts that are over
	began        time.Time            // when the ranks of the first attempt were started, plus the time for which ranks were stopped in all attempts
	stopsCounted time.Duration        // how long mpiexec had been stopped when the last attempt ended
	lastNodeLost time.Time            // when the last attempt lost a node
	stdinOffset  int64                // where standard input began, if it is a file
	stdinRead    atomic.Bool          // something was read from standard input, if it is not a file
	stdoutGone   atomic.Bool          // mpiexec's standard output can no longer be written to
	pastAttempts int                  // attempts that were over before this mpiexec (--resume)
	states       map[reflect.Type]any // states of features, for all attempts
}

// run runs attempts (runs of all ranks), one after the other, until restart.Decide says that no other attempt
// follows.
func (l *attemptLoop) run(ctx context.Context) (job.Result, error) {
	if err := l.waitForLostNodes(ctx, l.env.LeftoverNodes, time.Now()); err != nil {
		return job.Result{Attempts: l.attempts}, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	j := l.newAttempt()
	for {
		result, next, err := l.runAttempt(ctx, j)
		if l.request.Restart.AllowsSeveral() {
			result.Attempts = l.attempts
		}
		if err != nil || !next.Restarts {
			return result, err
		}
		old := j
		j = l.newAttempt()
		j.pause.Store(&attemptPause{len(l.attempts), end})
		j.takeOverNodes(old.keptNodes)
		err = l.betweenAttempts(ctx, j, next.Pause)
		if err != nil {
			j.releaseKept()
			j.close()
			return result, err
		}
	}
}

// newAttempt returns the Job of the next attempt (one run of all ranks).
func (l *attemptLoop) newAttempt() *Job {
	env := l.env
	env.In = l.attemptInput()
	j := newJob(env)
	j.allAttempts = l.states
	return j
}

// runAttempt runs all ranks of the job once:
//
//	reserve nodes -> open streams -> start ranks -> supervise -> decide about another attempt -> report
func (l *attemptLoop) runAttempt(ctx context.Context, j *Job) (result job.Result, next restart.Decision, err error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	defer j.close()
	defer j.callClosing()
	step := l.traceStep()
	defer func() { endTraceStep(step, j, err) }()
	place, err := l.reserveNodes(ctx, j)
	defer place.Close()
	if err != nil {
		return job.Result{Connections: place.Connections}, next, err
	}
	if err := j.openStreams(place, func() { l.stdoutGone.Store(true) }); err != nil {
		return job.Result{}, next, err
	}
	l.signals.HandOver(func(number syscall.Signal) { j.events.Put(supervise.Signaled{Signal: signalOnNodes(number)}) })
	defer l.signals.TakeBack(j.pendingSignals)
	l.reportAttempt(place.Plan)
	j.jobStart = l.jobStart()
	if l.env.AttemptBegan != nil {
		l.env.AttemptBegan(l.attempts, job.Attempt{Number: len(l.attempts), Began: time.Now(), Nodes: place.Plan.Names(), Size: place.Plan.Size})
	}
	j.startRanks(place)
	if l.stdoutGone.Load() {
		j.events.Put(supervise.Failure{Kind: supervise.StdoutGone})
	}
	if l.env.TerminalResized != nil {
		go j.watchTerminalSize(ctx)
	}
	j.RequestAfterMove = func(m restart.Move) (job.Request, []string, string) {
		return restart.RequestAfterMove(l.request, l.attempts, job.Attempt{Nodes: j.Plan.Names(), Size: j.Plan.Size, StandbyNodes: standbyNames(j.Standby)}, m)
	}

	j.supervise(ctx)

	if ctx.Err() != nil { // that has ended the job; the rest of its output is still written
		ctx = context.WithoutCancel(ctx)
	}
	mayGoOn := reserve.MayHaveNextAttempt(j.Request)
	if !mayGoOn {
		j.SendAll(&wire.Bye{})
	}
	j.askBatchSystem()
	next = l.attemptEnded(j, j.State)
	if mayGoOn {
		j.keepOrReleaseNodes(next.Restarts)
	}
	return j.report(ctx, next.Restarts), next, nil
}

// attemptEnded records how an attempt (one run of all ranks) ended, and decides whether another follows.
func (l *attemptLoop) attemptEnded(j *Job, state *supervise.State) restart.Decision {
	l.began = cmp.Or(j.jobStart, state.Began()).Add(state.StoppedTime())
	l.stopsCounted = l.env.StopTimes.Total()
	toldToEnd := state.WasToldToEnd()
	a := job.Attempt{Number: len(l.attempts), Began: state.Began(), Ended: time.Now(), Kind: state.Cause.EndKind(), Reason: state.Cause.Reason(),
		Nodes: j.Plan.Names(), Size: j.Plan.Size, Exit: state.ExitCode()}
	if state.Cause != nil {
		a.Cause = state.Cause.Text
		if a.Kind == job.EndByStartFailure && state.Cause.Node >= 0 {
			a.Failed = []string{j.Nodes[state.Cause.Node].Name()}
		}
	}
	for _, n := range j.Nodes {
		if n.Lost == nil && n.drained {
			continue
		}
		a.Lost = append(a.Lost, n.Name())
		if n.Lost == nil { // a process there cannot be killed
			j.lastNodeLost = a.Ended
		}
	}
	a.StandbyNodes = standbyNames(j.Standby)
	for _, ends := range j.Hooks.AttemptEnds {
		ends(&a)
	}
	l.attempts, l.lastNodeLost = append(l.attempts, a), j.lastNodeLost
	next := restart.Decide(l.request.Restart, l.attempts, rand.Float64())
	if next.Restarts && toldToEnd {
		next = restart.Decision{Why: "mpiexec was asked to end the job"}
	}
	switch {
	case next.Restarts && state.IsMoved():
		j.sequel.Attempt = &supervise.NextAttempt{}
	case next.Restarts:
		j.sequel.Attempt = l.restartAfter(a.Lost)
	case next.Why != "":
		j.sequel.WhyNone = next.Why
		l.report(job.AttemptEvent{Event: "giveup", GiveUpReason: next.Why})
	}
	return next
}

// restartAfter returns what the report says about the next attempt (one run of all ranks). It divides lostNodes, the
// nodes that the last attempt has lost, into those that may be used as a last resort and those that are excluded.
func (l *attemptLoop) restartAfter(lostNodes []string) *supervise.NextAttempt {
	r := &supervise.NextAttempt{Number: restart.RestartNumber(l.request.Restart, l.attempts)}
	usable := make(map[string]bool)
	for _, n := range restart.NextRequest(l.request, l.attempts).Nodes {
		usable[n.Name] = n.ExcludedWhy == ""
	}
	for _, name := range lostNodes {
		if usable[name] {
			r.LastResortNodes = append(r.LastResortNodes, name)
		} else {
			r.ExcludedNodes = append(r.ExcludedNodes, name)
		}
	}
	return r
}

// reserveNodes reserves nodes for the next attempt (one run of all ranks). If a restart does not find enough
// nodes, it keeps trying for up to restart.SearchTime (rule SV-5).
func (l *attemptLoop) reserveNodes(ctx context.Context, j *Job) (*reserve.Reservation, error) {
	ctx, done := l.withinJobTime(ctx)
	defer done()
	last, pause := time.Now().Add(restart.SearchTime), cmp.Or(l.request.Restart.Delay, restart.DefaultDelay)
	reported := ""
	for {
		kept := j.remainingKept()
		j.keptNodes = nil
		place, err := reserve.Reserve(ctx, restart.NextRequest(l.request, l.attempts), j.Env.Env, kept...)
		if err == nil || l.isFirstHere() || ctx.Err() != nil || !lacksCapacity(err) {
			return place, err
		}
		if last := &l.attempts[len(l.attempts)-1]; last.NextNodes != nil { // the target of the move was lost since
			last.NextNodes, j.keptNodes = nil, place.CloseNewNodes()
			continue
		}
		if time.Now().Add(pause).After(last) {
			why := "no suitable hosts were free for " + text.FormatDuration(restart.SearchTime)
			l.report(job.AttemptEvent{Event: "giveup", GiveUpReason: why})
			return place, &usererr.Error{Text: fmt.Sprintf("the job is not started again: %s (%v)", why, err), Code: l.attempts[len(l.attempts)-1].Exit}
		}
		j.keptNodes = place.CloseNewNodes()
		if why := err.Error(); why != reported {
			l.env.Report(fmt.Sprintf("cannot start the job again yet: %s; mpiexec keeps trying for %s", why, text.FormatDuration(time.Until(last))))
			reported = why
		}
		if err := l.pauseBefore(ctx, j, pause); err != nil {
			j.releaseKept()
			return place, err
		}
	}
}

// lacksCapacity reports whether a reservation failed because nodes or CPUs are missing, so that a later try may
// succeed.
func lacksCapacity(err error) bool {
	var noPlan *plan.Error
	var noHosts *reserve.HostsError
	return errors.As(err, &noPlan) || errors.As(err, &noHosts)
}

// reportAttempt tells the user on which nodes a restarted attempt (one run of all ranks) runs. It reports
// nothing for the first attempt.
func (l *attemptLoop) reportAttempt(p job.Plan) {
	if len(l.attempts) == 0 {
		return
	}
	last, nodes := l.attempts[len(l.attempts)-1], p.Names()
	was := "was " + hostlist.FoldList(last.Nodes)
	if wanted := l.attempts[0].Size; p.Size < wanted {
		was = fmt.Sprintf("there were not enough free hosts for all %d ranks", wanted)
	}
	if back := slices.DeleteFunc(slices.Clone(last.Lost), func(name string) bool { return !slices.Contains(nodes, name) }); len(back) > 0 {
		was += "; lost in the previous attempt: " + hostlist.Fold(back)
	}
	l.env.Report(fmt.Sprintf("attempt %d: %s on %s (%s)", len(l.attempts), text.Count(p.Size, "rank"), hostlist.FoldList(nodes), was))
	if l.stdinRead.Load() {
		l.env.Report("note: standard input is a pipe, and the previous attempt has read from it; ranks of this attempt get end of file")
		l.stdinRead.Store(false)
	}
	l.report(job.AttemptEvent{Event: "attempt", Attempt: len(l.attempts), Reason: last.Kind, Lost: last.Lost, Nodes: nodes, Size: p.Size})
}

// betweenAttempts waits until lost nodes can no longer run processes of the job, and then for the pause between two
// attempts.
func (l *attemptLoop) betweenAttempts(ctx context.Context, j *Job, pause time.Duration) error {
	ctx, done := l.withinJobTime(ctx)
	defer done()
	if err := l.env.Trace.Do(trace.Row{}, trace.Fence, func() error { return l.waitForLostNodes(ctx, l.attempts[len(l.attempts)-1].Lost, l.lastNodeLost) }); err != nil {
		return err
	}
	l.report(job.AttemptEvent{Event: "pause", Seconds: pause.Round(time.Millisecond).Seconds()})
	return l.env.Trace.Do(trace.Row{}, trace.Pause, func() error { return l.pauseBefore(ctx, j, pause) })
}

// pauseBefore waits for the time d before the next attempt. It returns an error early if the job ends. After
// restart.KeepTime it releases the nodes that were kept for the next attempt.
func (l *attemptLoop) pauseBefore(ctx context.Context, j *Job, d time.Duration) error {
	left := max(0, time.Until(l.attempts[len(l.attempts)-1].Ended.Add(restart.KeepTime)))
	if len(j.keptNodes) > 0 && left < d {
		if err := l.sleep(ctx, left); err != nil {
			return err
		}
		j.releaseKept()
		d -= left
	}
	return l.sleep(ctx, d)
}

// lostNodesReportDelay is how long waitForLostNodes waits before it reports to the user that it waits.
const lostNodesReportDelay = 3 * time.Second

// waitForLostNodes waits until no process of the last attempt (one run of all ranks) can still run on lostNodes. Two
// attempts of one job must not write the same files (rule SV-3). It tries to end all processes of the job on these
// nodes, and returns when it has succeeded. On a node that cannot be reached, the helper ends the ranks by itself.
// waitForLostNodes therefore waits no longer than Restart.MaxFence after cutOff, the time at which the nodes were lost.
func (l *attemptLoop) waitForLostNodes(ctx context.Context, lostNodes []string, cutOff time.Time) error {
	if len(lostNodes) == 0 {
		return nil
	}
	where := hostlist.FoldList(lostNodes)
	if l.request.Restart.MaxFence == 0 {
		l.env.Report(fmt.Sprintf("ranks of the previous attempt may still be running on %s; mpiexec does not wait for them (--restart-fence no)", where))
		return nil
	}
	began, until := time.Now(), cutOff.Add(l.request.Restart.MaxFence)
	l.report(job.AttemptEvent{Event: "fence", Lost: lostNodes, Seconds: time.Until(until).Round(time.Millisecond).Seconds()})
	timer := time.AfterFunc(lostNodesReportDelay, func() {
		l.env.Report(fmt.Sprintf("mpiexec waits before the restart, for at most %s, until all processes of the job on %s have ended", text.FormatDuration(until.Sub(began)), where))
	})
	defer timer.Stop()
	for dirty := lostNodes; time.Now().Before(until); {
		if dirty = l.cleanNodes(ctx, dirty); len(dirty) == 0 {
			return nil
		}
		if err := l.sleep(ctx, min(time.Second, time.Until(until))); err != nil {
			return err
		}
	}
	return nil
}

// cleanNodes ends processes that the job has left on nodes. It returns the nodes on which such processes may
// still run.
func (l *attemptLoop) cleanNodes(ctx context.Context, nodes []string) (dirty []string) {
	env, req := l.env.Env, l.request
	req.Nodes = append(slices.Clone(req.Nodes), l.env.FormerNodes...)
	env.Report = func(string) {}
	signals := make(chan os.Signal)
	close(signals) // the attempt loop handles signals
	env.Signals, env.Progress, env.OnConnect = signals, nil, nil
	clean := reserve.CleanNodes(ctx, req, env, nodes)
	for _, name := range nodes {
		if !clean[name] {
			dirty = append(dirty, name)
		}
	}
	return dirty
}

// jobStart returns the time from which the job's time limit is counted. This is the time at which the ranks
// of the first attempt started, plus the time for which the ranks or mpiexec were stopped since then (rule
// SIG-5). It is zero before the first attempt has ended.
func (l *attemptLoop) jobStart() time.Time {
	if l.began.IsZero() {
		return time.Time{}
	}
	return l.began.Add(l.env.StopTimes.Total() - l.stopsCounted)
}

// withinJobTime returns a context that ends when the job's time limit has passed (rule SV-11). Pauses between attempts
// count towards the limit.
func (l *attemptLoop) withinJobTime(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := l.request.TimeLimits.Run
	if limit == 0 || l.began.IsZero() {
		return context.WithCancel(ctx)
	}
	return l.env.StopTimes.Within(ctx, time.Until(l.jobStart().Add(limit)), &usererr.Error{
		Text: fmt.Sprintf("the time limit of the job (-timeout %v) passed between two attempts, while no rank was running", limit), Code: job.ExitTimeout})
}

// sleep waits for the duration d. It returns an error early if the job ends.
func (l *attemptLoop) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isFirstHere reports whether this mpiexec has not run an attempt (one run of all ranks) yet. It ignores attempts that
// another mpiexec ran before --resume.
func (l *attemptLoop) isFirstHere() bool { return len(l.attempts) == l.pastAttempts }

func (l *attemptLoop) report(event job.AttemptEvent) { l.env.Events().AttemptEvent(event) }

// attemptInput returns the standard input of an attempt (one run of all ranks; rule SV-9). If the input is a
// file, each attempt reads it from its start. If it is a pipe or terminal, only the first attempt can read
// it, and later attempts read end of file.
func (l *attemptLoop) attemptInput() io.Reader {
	if l.env.In == nil || l.request.Restart.MaxRestarts == 0 && l.pastAttempts == 0 {
		return l.env.In
	}
	if file, ok := l.env.In.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			if l.isFirstHere() {
				l.stdinOffset, _ = file.Seek(0, io.SeekCurrent)
			}
			return io.NewSectionReader(file, l.stdinOffset, math.MaxInt64-l.stdinOffset)
		}
	}
	if len(l.attempts) > 0 {
		return strings.NewReader("")
	}
	return readRecorder{l.env.In, &l.stdinRead}
}

// A readRecorder is a Reader that records, in anyRead, whether any byte was read.
type readRecorder struct {
	io.Reader
	anyRead *atomic.Bool
}

func (n readRecorder) Read(p []byte) (int, error) {
	got, err := n.Reader.Read(p)
	if got > 0 {
		n.anyRead.Store(true)
	}
	return got, err
}

func standbyNames(standby []reserve.KeptNode) (names []string) {
	for _, s := range standby {
		names = append(names, s.Name())
	}
	return names
}
