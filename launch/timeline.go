package launch

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/trace"
	"remshell/usererr"
)

/*
What a fleet's own part of a timeline is (--trace): how its ranks start, meet, run and end.

	Start sent --start--> all ranks of a host run --first fence--> the host comes to it
	                 Started --(the rank's own row)--> Exited
	                                                   last Exited --end--> Drained

All of it is by our clock, when we hear of it. Above mostRows the ranks of a host have one row.
*/

// maxRankRows is how many ranks of a job have rows of their own in its timeline.
const maxRankRows = 4096

// A groupTrace is the part of one group.
type groupTrace struct {
	rec            *trace.Recorder
	row            trace.Row // of mpiexec
	run            trace.Step
	start          trace.Step
	unstarted      int       // ranks that have not started yet
	allStarted     time.Time // when the last had; zero: not yet
	firstFenceDone bool      // all its hosts have, once
	groupEnded     func()    // is told that its last rank has ended
	hosts          map[*jobNode]*hostTrace
	ranks          map[int]trace.Step // of those that run and have a row, by their numbers in the job
	rankRows       bool               // they have
}

// A hostTrace is that of one host.
type hostTrace struct {
	start             trace.Step
	unstarted         int // ranks that have not started yet
	alive             int
	allStarted        time.Time  // when the last had started; zero: not yet
	firstFenceReached bool       // to the first fence
	allRanks          trace.Step // of all its ranks, where they have no rows
}

// groupRow is where mpiexec's own steps for a spawned group are: number counts from 1; 0 is that of the command line.
func groupRow(number int) trace.Row {
	if number == 0 {
		return trace.Row{}
	}
	return trace.Row{Part: fmt.Sprintf("group %d", number), Order: number}
}

// newGroupTrace begins the times of a group whose ranks are being let go; nil: nobody wants to know.
func (f *runningJob) newGroupTrace(g *group) *groupTrace {
	rec := f.env.Trace
	if rec == nil {
		return nil
	}
	number, _ := supervise.GroupOf(f.groupFirsts, g.first)
	l := &groupTrace{rec: rec, row: groupRow(number), unstarted: g.plan.Size, rankRows: f.size <= maxRankRows,
		groupEnded: func() { f.groupEnded = time.Now() }, hosts: make(map[*jobNode]*hostTrace), ranks: make(map[int]trace.Step)}
	l.run = rec.Begin(l.row, trace.Run)
	l.start = rec.Begin(l.row, trace.Start)
	l.start.Note(text.Count(g.plan.Size, "rank") + " on " + text.Count(len(g.nodes), "host"))
	if !l.rankRows {
		rec.Remark(fmt.Sprintf("ranks behind the first %d have one row for each host", maxRankRows))
	}
	for i, n := range g.nodes {
		h := &hostTrace{unstarted: len(g.plan.Nodes[i].Ranks), alive: len(g.plan.Nodes[i].Ranks)}
		h.start = rec.Begin(trace.Row{Host: n.Name()}, trace.Start)
		h.start.Note(reserve.FormatRanksOf(g.plan.Nodes[i]))
		l.hosts[n] = h
	}
	return l
}

// started takes the news that a rank runs, or why it does not.
func (l *groupTrace) started(n *jobNode, rank int, name string, err string) {
	if l == nil || l.hosts[n] == nil {
		return
	}
	h := l.hosts[n]
	if err != "" {
		h.start.End(errors.New(err))
		l.start.End(fmt.Errorf("%s: %s", n.Name(), err))
		return
	}
	switch {
	case l.rankRows:
		l.ranks[rank] = l.rec.Begin(trace.Row{Host: n.Name(), Part: "rank " + name, Order: 1 + rank}, trace.Run)
	case h.allRanks == trace.Step{}:
		h.allRanks = l.rec.Begin(trace.Row{Host: n.Name(), Part: "ranks", Order: math.MaxInt}, trace.Run)
		h.allRanks.Note(text.Count(h.alive, "rank") + ", as one")
	}
	if h.unstarted--; h.unstarted == 0 {
		h.start.End(nil)
		h.allStarted = time.Now()
	}
	if l.unstarted--; l.unstarted == 0 {
		l.start.End(nil)
		l.allStarted = time.Now()
	}
}

// exited takes the news that a rank has ended.
func (l *groupTrace) exited(n *jobNode, exit job.Exit) {
	if l == nil || l.hosts[n] == nil {
		return
	}
	l.ranks[exit.Rank].End(endOf(exit))
	delete(l.ranks, exit.Rank)
	h := l.hosts[n]
	if h.alive--; h.alive > 0 {
		return
	}
	h.allRanks.End(nil)
	n.ended = time.Now()
}

// endOf is how a rank has ended, if it was not well.
func endOf(exit job.Exit) error {
	switch {
	case exit.Signal != 0:
		return fmt.Errorf("killed by %v", job.Signal(exit.Signal))
	case exit.Code != 0:
		return errors.New("exit code " + strconv.Itoa(exit.Code))
	}
	return nil
}

// fenceReached takes the news that a host has come to a fence of its whole group; all is whether it was the last.
func (l *groupTrace) fenceReached(n *jobNode, all bool) {
	if l == nil {
		return
	}
	if h := l.hosts[n]; h != nil && !h.firstFenceReached && !h.allStarted.IsZero() {
		h.firstFenceReached = true
		l.rec.Add(trace.Row{Host: n.Name()}, trace.FirstFence, h.allStarted)
	}
	if all && !l.firstFenceDone && !l.allStarted.IsZero() {
		l.firstFenceDone = true
		l.rec.Add(l.row, trace.FirstFence, l.allStarted)
	}
}

// endAll ends the times of a group of which no rank is left, or none that we know of, and then why.
func (l *groupTrace) endAll(why error) {
	if l == nil {
		return
	}
	if why == nil {
		defer l.groupEnded()
	}
	for _, rank := range l.ranks {
		rank.End(why)
	}
	clear(l.ranks)
	for _, h := range l.hosts {
		h.start.End(why)
		h.allRanks.End(why)
	}
	l.start.End(why)
	l.run.End(nil)
}

// endHostSteps ends what is known of a host that was lost.
func (f *runningJob) endHostSteps(n *jobNode) {
	for _, g := range f.groups {
		h := g.times.host(n)
		if h == nil {
			continue
		}
		why := errors.New(usererr.Reason(n.lost))
		h.start.End(why)
		h.allRanks.End(why)
		if h.unstarted > 0 {
			g.times.start.End(fmt.Errorf("%s: %w", n.Name(), why))
		}
		for rank, step := range g.times.ranks {
			if g.nodeOfRank[rank-g.first] == n.key {
				step.End(why)
				delete(g.times.ranks, rank)
			}
		}
	}
}

func (l *groupTrace) host(n *jobNode) *hostTrace {
	if l == nil {
		return nil
	}
	return l.hosts[n]
}

// endOpenSteps ends what is still open in the timeline when a fleet's job is over, and notes how long it took from the
// last rank's end to the end of all.
func (f *runningJob) endOpenSteps() {
	if f.env.Trace == nil {
		return
	}
	for _, g := range f.groups {
		g.times.endAll(errUnknownEnd)
	}
	if !f.groupEnded.IsZero() {
		f.env.Trace.Add(trace.Row{}, trace.End, f.groupEnded)
	}
}

// errGroupKilled is what a timeline has of a spawned group of which one rank could not be started.
var errGroupKilled = errors.New("a rank of the group could not be started")

// errUnknownEnd is what a timeline has of ranks whose end nobody has told of.
var errUnknownEnd = errors.New("its end is not known")

// traceStep is the step of mpiexec around an attempt of a job, or all of one that has no others.
func (l *attemptLoop) traceStep() trace.Step {
	if !l.request.Restart.AllowsSeveral() {
		return l.env.Trace.Begin(trace.Row{}, trace.Job)
	}
	return l.env.Trace.Begin(trace.Row{}, fmt.Sprintf("%s %d", trace.Attempt, len(l.attempts)))
}

// endTraceStep ends the step of an attempt, and tells why it has ended if it was not well. A move is no failure.
func endTraceStep(life trace.Step, f *runningJob, err error) {
	if err == nil && f.state != nil && f.state.Cause != nil {
		if err = errors.New(f.state.Cause.Text); f.state.IsMoved() {
			life.Note(f.state.Cause.Text)
			err = nil
		}
	}
	life.End(err)
}

// tellSlowest says, for -v, which hosts took longest to start.
func (e Env) tellSlowest() {
	if said := e.Log.Info(); said.Enabled() {
		if line := slowestLine(e.Trace.Trace()); line != "" {
			said.Msg(line)
		}
	}
}

// slowestLine is the line that -v ends with: which hosts took longest to start, and what of it; empty where that
// would be all of them.
func slowestLine(t trace.Trace) string {
	const named = 3
	slow, hosts := trace.Slowest(t, named)
	if hosts <= named {
		return ""
	}
	words := ""
	for i, s := range slow {
		if i > 0 {
			words += ", "
		}
		words += fmt.Sprintf("%s %s (%s %s", s.Host, formatDuration(s.Took), s.Step.Step, formatDuration(s.Step.Took()))
		if s.Step.Why != "" {
			words += ", failed"
		}
		words += ")"
	}
	return "slowest hosts: " + words
}

// formatDuration writes a time as the log does: 1.234s, 12ms.
func formatDuration(d time.Duration) string { return d.Round(time.Millisecond).String() }
