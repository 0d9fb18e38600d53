/*
Package ranktrace is the feature of mpiexec that writes the steps of a run with their times (--trace, --trace-svg).
It also records the steps of the running job: how its ranks start, reach the first fence, run and end.

	Start sent --start--> all ranks of a host run --first fence--> the host reaches the fence
	                 Started --(the rank's own row)--> Exited
	                                                   last Exited --end--> Drained

All times are those at which mpiexec receives a message, by its own clock. In jobs of more than maxRankRows ranks, the
ranks of a host share one row of the trace. Package trace stores these steps together with the earlier steps of the run.
*/
package ranktrace

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/trace"
	"remshell/usererr"
	"remshell/wire"
)

func init() { launch.Register(launch.Feature{Name: "trace of ranks", Attach: attach}) }

// A jobTrace records the steps of one attempt (one run of all ranks).
type jobTrace struct {
	job       *launch.Job
	rec       *trace.Recorder
	groups    map[*launch.Group]*groupTrace
	lastEnd   time.Time                  // when the last rank of a group ended; zero: none has
	hostEnded map[*launch.Node]time.Time // when the last rank of its last group ended
}

func attach(j *launch.Job) {
	if j.Env.Trace == nil {
		return
	}
	t := &jobTrace{job: j, rec: j.Env.Trace, groups: make(map[*launch.Group]*groupTrace), hostEnded: make(map[*launch.Node]time.Time)}
	j.Hooks.GroupStarts.Add(t.addGroup)
	j.Hooks.RankStarted.Add(func(n *launch.Node, g *launch.Group, m *wire.Started) {
		t.groups[g].started(n, m.Rank, j.State.RankNumber(m.Rank), m.Err)
	})
	j.Hooks.FenceReached.Add(func(n *launch.Node, g *launch.Group, last bool) { t.groups[g].fenceReached(n, last) })
	j.Hooks.RankEnded.Add(func(n *launch.Node, g *launch.Group, exit *job.Exit) {
		if t.groups[g].exited(n, exit) {
			t.hostEnded[n] = time.Now()
		}
	})
	j.Hooks.GroupEnded.Add(t.groupEnded)
	j.Hooks.NodeLost.Add(t.nodeLost)
	j.Hooks.NodeDrained.Add(func(n *launch.Node) {
		if ended := t.hostEnded[n]; !ended.IsZero() {
			t.rec.Add(trace.Row{Host: n.Name()}, trace.End, ended)
		}
	})
	j.Hooks.Ended.Add(t.endAll)
}

// maxRankRows is the maximum number of ranks of a job for which each rank has its own row in the trace.
const maxRankRows = 4096

// A groupTrace records the steps of one group of ranks.
type groupTrace struct {
	rec            *trace.Recorder
	row            trace.Row // row of mpiexec for the group
	run            trace.Step
	start          trace.Step
	unstarted      int       // ranks that have not started yet
	allStarted     time.Time // when the last rank had started; zero: not yet
	firstFenceDone bool      // all its hosts have completed a fence
	groupEnded     func()    // called when its last rank has ended
	hosts          map[*launch.Node]*hostTrace
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

// addGroup starts to record a group whose ranks are about to start.
func (t *jobTrace) addGroup(g *launch.Group) {
	number, _ := supervise.GroupOf(t.job.GroupFirsts, g.First)
	l := &groupTrace{rec: t.rec, row: launch.GroupRow(number), unstarted: g.Plan.Size, rankRows: t.job.Size <= maxRankRows,
		hosts: make(map[*launch.Node]*hostTrace), ranks: make(map[int]trace.Step)}
	l.run = l.rec.Begin(l.row, trace.Run)
	l.start = l.rec.Begin(l.row, trace.Start)
	l.start.Note(text.Count(g.Plan.Size, "rank") + " on " + text.Count(len(g.Nodes), "host"))
	if !l.rankRows {
		l.rec.Remark(fmt.Sprintf("the job has more than %d ranks, so the ranks of a host share one row", maxRankRows))
	}
	for i, n := range g.Nodes {
		h := &hostTrace{unstarted: len(g.Plan.Nodes[i].Ranks), alive: len(g.Plan.Nodes[i].Ranks)}
		h.start = l.rec.Begin(trace.Row{Host: n.Name()}, trace.Start)
		h.start.Note(reserve.FormatRanksOf(g.Plan.Nodes[i]))
		l.hosts[n] = h
	}
	t.groups[g] = l
}

// started records that a rank has started. If the rank could not be started, err says why.
func (l *groupTrace) started(n *launch.Node, rank int, name string, err string) {
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

// exited records that a rank has ended. isLast is true if the rank was the group's last one on its host.
func (l *groupTrace) exited(n *launch.Node, exit *job.Exit) (isLast bool) {
	if l == nil || l.hosts[n] == nil {
		return false
	}
	l.ranks[exit.Rank].End(endOf(exit))
	delete(l.ranks, exit.Rank)
	h := l.hosts[n]
	if h.alive--; h.alive > 0 {
		return false
	}
	h.allRanks.End(nil)
	return true
}

// endOf returns an error that says how a rank failed, or nil if it did not fail.
func endOf(exit *job.Exit) error {
	switch {
	case exit.Signal != 0:
		return fmt.Errorf("killed by %v", job.Signal(exit.Signal))
	case exit.Code != 0:
		return errors.New("exit code " + strconv.Itoa(exit.Code))
	}
	return nil
}

// fenceReached records that the ranks on a host have reached the first fence of all ranks of their group. It ignores
// later fences. all is true if this host was the last one.
func (l *groupTrace) fenceReached(n *launch.Node, all bool) {
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

// endAll ends the unfinished steps of a group when the group has ended, or when mpiexec stops waiting for it. cause
// is the error to record for ranks whose end was not reported.
func (l *groupTrace) endAll(cause error) {
	if l == nil {
		return
	}
	for _, rank := range l.ranks {
		rank.End(cause)
	}
	clear(l.ranks)
	for _, h := range l.hosts {
		h.start.End(cause)
		h.allRanks.End(cause)
	}
	l.start.End(cause)
	l.run.End(nil)
}

// groupEnded ends the steps of a group whose last rank has ended.
func (t *jobTrace) groupEnded(g *launch.Group) {
	if g.Killed {
		t.groups[g].endAll(errGroupKilled)
	} else {
		t.groups[g].endAll(nil)
		t.lastEnd = time.Now()
	}
	delete(t.groups, g)
}

// nodeLost ends the steps of a host to which the connection was lost.
func (t *jobTrace) nodeLost(n *launch.Node) {
	why := errors.New(usererr.Reason(n.Lost))
	for g, l := range t.groups {
		h := l.hosts[n]
		if h == nil {
			continue
		}
		h.start.End(why)
		h.allRanks.End(why)
		if h.unstarted > 0 {
			l.start.End(fmt.Errorf("%s: %w", n.Name(), why))
		}
		for rank, step := range l.ranks {
			if g.NodeOfRank[rank-g.First] == n.Key {
				step.End(why)
				delete(l.ranks, rank)
			}
		}
	}
}

// endAll ends all steps of a job that is over, and records the time from the last rank's end until now.
func (t *jobTrace) endAll() {
	for _, l := range t.groups {
		l.endAll(errUnknownEnd)
	}
	if !t.lastEnd.IsZero() {
		t.rec.Add(trace.Row{}, trace.End, t.lastEnd)
	}
}

// errGroupKilled is recorded as the error of all unfinished steps of a spawned group that mpiexec has killed because
// one of its ranks could not be started.
var errGroupKilled = errors.New("another rank of the same spawn could not be started")

// errUnknownEnd is recorded as the error of a rank's unfinished step if mpiexec received no report that the rank ended.
var errUnknownEnd = errors.New("mpiexec received no report about the end of this rank")
