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
This file records a running job's part of --trace: how its ranks start, reach the first fence, run
and end.

	Start sent --start--> all ranks of a host run --first fence--> the host reaches the fence
	                 Started --(the rank's own row)--> Exited
	                                                   last Exited --end--> Drained

All times are by the clock of mpiexec, when it receives a message. In jobs of more than maxRankRows
ranks, the ranks of a host share one row.
*/

// maxRankRows is up to how many ranks of a job each have a row of their own in the trace.
const maxRankRows = 4096

// A groupTrace records the steps of one group.
type groupTrace struct {
	rec            *trace.Recorder
	row            trace.Row // row of mpiexec for the group
	run            trace.Step
	start          trace.Step
	unstarted      int       // ranks that have not started yet
	allStarted     time.Time // when the last rank had started; zero: not yet
	firstFenceDone bool      // all its hosts have completed a fence
	groupEnded     func()    // called when its last rank has ended
	hosts          map[*Node]*hostTrace
	ranks          map[int]trace.Step // ranks that run and have a row, by their number in the job
	rankRows       bool               // each rank has a row
}

// A hostTrace records the steps of a group on one host.
type hostTrace struct {
	start             trace.Step
	unstarted         int // ranks that have not started yet
	alive             int
	allStarted        time.Time  // when the last rank had started; zero: not yet
	firstFenceReached bool       // the host has reached the first fence
	allRanks          trace.Step // one step for all ranks of the host, if they have no rows
}

// groupRow returns the row for mpiexec's own steps of a group. Spawned groups are numbered from 1;
// 0 is the group of the command line.
func groupRow(number int) trace.Row {
	if number == 0 {
		return trace.Row{}
	}
	return trace.Row{Part: fmt.Sprintf("group %d", number), Order: number}
}

// newGroupTrace starts to record a group whose ranks are about to start. It returns nil if no trace
// is kept.
func (j *Job) newGroupTrace(g *Group) *groupTrace {
	rec := j.Env.Trace
	if rec == nil {
		return nil
	}
	number, _ := supervise.GroupOf(j.GroupFirsts, g.First)
	l := &groupTrace{rec: rec, row: groupRow(number), unstarted: g.Plan.Size, rankRows: j.Size <= maxRankRows,
		groupEnded: func() { j.groupEnded = time.Now() }, hosts: make(map[*Node]*hostTrace), ranks: make(map[int]trace.Step)}
	l.run = rec.Begin(l.row, trace.Run)
	l.start = rec.Begin(l.row, trace.Start)
	l.start.Note(text.Count(g.Plan.Size, "rank") + " on " + text.Count(len(g.Nodes), "host"))
	if !l.rankRows {
		rec.Remark(fmt.Sprintf("ranks behind the first %d have one row for each host", maxRankRows))
	}
	for i, n := range g.Nodes {
		h := &hostTrace{unstarted: len(g.Plan.Nodes[i].Ranks), alive: len(g.Plan.Nodes[i].Ranks)}
		h.start = rec.Begin(trace.Row{Host: n.Name()}, trace.Start)
		h.start.Note(reserve.FormatRanksOf(g.Plan.Nodes[i]))
		l.hosts[n] = h
	}
	return l
}

// started records that a rank has started, or why it has not.
func (l *groupTrace) started(n *Node, rank int, name string, err string) {
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

// exited records that a rank has ended.
func (l *groupTrace) exited(n *Node, exit job.Exit) {
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

// endOf returns how a rank failed; nil: it did not.
func endOf(exit job.Exit) error {
	switch {
	case exit.Signal != 0:
		return fmt.Errorf("killed by %v", job.Signal(exit.Signal))
	case exit.Code != 0:
		return errors.New("exit code " + strconv.Itoa(exit.Code))
	}
	return nil
}

// fenceReached records that a host has reached a fence of its whole group. all reports whether it
// was the last.
func (l *groupTrace) fenceReached(n *Node, all bool) {
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

// endAll ends the steps of a group that has no ranks left. If its end is not known, why says so.
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

// endHostSteps ends the steps of a host that was lost.
func (j *Job) endHostSteps(n *Node) {
	for _, g := range j.Groups {
		h := g.times.host(n)
		if h == nil {
			continue
		}
		why := errors.New(usererr.Reason(n.Lost))
		h.start.End(why)
		h.allRanks.End(why)
		if h.unstarted > 0 {
			g.times.start.End(fmt.Errorf("%s: %w", n.Name(), why))
		}
		for rank, step := range g.times.ranks {
			if g.NodeOfRank[rank-g.First] == n.Key {
				step.End(why)
				delete(g.times.ranks, rank)
			}
		}
	}
}

func (l *groupTrace) host(n *Node) *hostTrace {
	if l == nil {
		return nil
	}
	return l.hosts[n]
}

// endOpenSteps ends all steps of a job that is over, and records the time from the last rank's end
// until now.
func (j *Job) endOpenSteps() {
	if j.Env.Trace == nil {
		return
	}
	for _, g := range j.Groups {
		g.times.endAll(errUnknownEnd)
	}
	if !j.groupEnded.IsZero() {
		j.Env.Trace.Add(trace.Row{}, trace.End, j.groupEnded)
	}
}

// errGroupKilled ends the steps of a spawned group of which one rank could not be started.
var errGroupKilled = errors.New("a rank of the group could not be started")

// errUnknownEnd ends the steps of ranks whose end was not reported.
var errUnknownEnd = errors.New("its end is not known")

// traceStep begins the step of an attempt, or of the whole job if it has only one attempt.
func (l *attemptLoop) traceStep() trace.Step {
	if !l.request.Restart.AllowsSeveral() {
		return l.env.Trace.Begin(trace.Row{}, trace.Job)
	}
	return l.env.Trace.Begin(trace.Row{}, fmt.Sprintf("%s %d", trace.Attempt, len(l.attempts)))
}

// endTraceStep ends the step of an attempt, with the cause if it failed. A move is no failure.
func endTraceStep(step trace.Step, f *Job, err error) {
	if err == nil && f.State != nil && f.State.Cause != nil {
		if err = errors.New(f.State.Cause.Text); f.State.IsMoved() {
			step.Note(f.State.Cause.Text)
			err = nil
		}
	}
	step.End(err)
}

// reportSlowest logs, for -v, which hosts took longest to start.
func (e Env) reportSlowest() {
	if log := e.Log.Info(); log.Enabled() {
		if line := slowestLine(e.Trace.Trace()); line != "" {
			log.Msg(line)
		}
	}
}

// slowestLine returns the line of reportSlowest. It is empty if the job has no more hosts than the
// line would name.
func slowestLine(t trace.Trace) string {
	const named = 3
	slow, hosts := trace.Slowest(t, named)
	if hosts <= named {
		return ""
	}
	line := ""
	for i, s := range slow {
		if i > 0 {
			line += ", "
		}
		line += fmt.Sprintf("%s %s (%s %s", s.Host, formatDuration(s.Took), s.Step.Step, formatDuration(s.Step.Took()))
		if s.Step.Why != "" {
			line += ", failed"
		}
		line += ")"
	}
	return "slowest hosts: " + line
}

// formatDuration formats a duration to the millisecond as the log does: 1.234s, 12ms.
func formatDuration(d time.Duration) string { return d.Round(time.Millisecond).String() }
