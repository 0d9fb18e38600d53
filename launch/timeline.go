package launch

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/timeline"
)

/*
What a fleet's own part of a timeline is (--trace): how its ranks start, meet, run and end.

	Start sent --start--> all ranks of a host run --first fence--> the host comes to it
	                 Started --(the rank's own row)--> Exited
	                                                   last Exited --end--> Drained

All of it is by our clock, when we hear of it. Above mostRows the ranks of a host have one row.
*/

// mostRows is how many ranks of a job have rows of their own in its timeline.
const mostRows = 4096

// A groupTimes is the part of one group.
type groupTimes struct {
	rec   *timeline.Recorder
	row   timeline.Row // of mpiexec
	run   timeline.Step
	start timeline.Step
	left  int       // ranks that have not started yet
	ran   time.Time // when the last had; zero: not yet
	met   bool      // all its hosts have, once
	over  func()    // is told that its last rank has ended
	hosts map[*member]*hostTimes
	ranks map[int]timeline.Step // of those that run and have a row, by their numbers in the job
	rows  bool                  // they have
}

// A hostTimes is that of one host.
type hostTimes struct {
	start  timeline.Step
	left   int // ranks that have not started yet
	alive  int
	ran    time.Time     // when the last had started; zero: not yet
	came   bool          // to the first fence
	folded timeline.Step // of all its ranks, where they have no rows
}

// groupRow is where mpiexec's own steps for a spawned group are: number counts from 1; 0 is that of the command line.
func groupRow(number int) timeline.Row {
	if number == 0 {
		return timeline.Row{}
	}
	return timeline.Row{Part: fmt.Sprintf("group %d", number), Order: number}
}

// live begins the times of a group whose ranks are being let go; nil: nobody wants to know.
func (f *fleet) live(g *group) *groupTimes {
	rec := f.env.Timeline
	if rec == nil {
		return nil
	}
	number, _ := supervise.Split(f.firsts, g.first)
	l := &groupTimes{rec: rec, row: groupRow(number), left: g.plan.Size, rows: f.size <= mostRows,
		over: func() { f.quiet = time.Now() }, hosts: make(map[*member]*hostTimes), ranks: make(map[int]timeline.Step)}
	l.run = rec.Begin(l.row, timeline.Run)
	l.start = rec.Begin(l.row, timeline.Start)
	l.start.Note(text.Count(g.plan.Size, "rank") + " on " + text.Count(len(g.nodes), "host"))
	if !l.rows {
		rec.Remark(fmt.Sprintf("ranks behind the first %d have one row for each host", mostRows))
	}
	for i, n := range g.nodes {
		h := &hostTimes{left: len(g.plan.Nodes[i].Ranks), alive: len(g.plan.Nodes[i].Ranks)}
		h.start = rec.Begin(timeline.Row{Host: n.Name()}, timeline.Start)
		h.start.Note(reserve.RanksOf(g.plan.Nodes[i]))
		l.hosts[n] = h
	}
	return l
}

// started takes the news that a rank runs, or why it does not.
func (l *groupTimes) started(n *member, rank int, name string, err string) {
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
	case l.rows:
		l.ranks[rank] = l.rec.Begin(timeline.Row{Host: n.Name(), Part: "rank " + name, Order: 1 + rank}, timeline.Run)
	case h.folded == timeline.Step{}:
		h.folded = l.rec.Begin(timeline.Row{Host: n.Name(), Part: "ranks", Order: math.MaxInt}, timeline.Run)
		h.folded.Note(text.Count(h.alive, "rank") + ", as one")
	}
	if h.left--; h.left == 0 {
		h.start.End(nil)
		h.ran = time.Now()
	}
	if l.left--; l.left == 0 {
		l.start.End(nil)
		l.ran = time.Now()
	}
}

// exited takes the news that a rank has ended.
func (l *groupTimes) exited(n *member, exit job.Exit) {
	if l == nil || l.hosts[n] == nil {
		return
	}
	l.ranks[exit.Rank].End(endOf(exit))
	delete(l.ranks, exit.Rank)
	h := l.hosts[n]
	if h.alive--; h.alive > 0 {
		return
	}
	h.folded.End(nil)
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

// arrived takes the news that a host has come to a fence of its whole group; all is whether it was the last.
func (l *groupTimes) arrived(n *member, all bool) {
	if l == nil {
		return
	}
	if h := l.hosts[n]; h != nil && !h.came && !h.ran.IsZero() {
		h.came = true
		l.rec.Add(timeline.Row{Host: n.Name()}, timeline.FirstFence, h.ran)
	}
	if all && !l.met && !l.ran.IsZero() {
		l.met = true
		l.rec.Add(l.row, timeline.FirstFence, l.ran)
	}
}

// end ends the times of a group of which no rank is left, or none that we know of, and then why.
func (l *groupTimes) end(why error) {
	if l == nil {
		return
	}
	if why == nil {
		defer l.over()
	}
	for _, rank := range l.ranks {
		rank.End(why)
	}
	clear(l.ranks)
	for _, h := range l.hosts {
		h.start.End(why)
		h.folded.End(why)
	}
	l.start.End(why)
	l.run.End(nil)
}

// cut ends what is known of a host that was lost.
func (f *fleet) cut(n *member) {
	for _, g := range f.groups {
		h := g.life.host(n)
		if h == nil {
			continue
		}
		why := errors.New(fault.Reason(n.lost))
		h.start.End(why)
		h.folded.End(why)
		if h.left > 0 {
			g.life.start.End(fmt.Errorf("%s: %w", n.Name(), why))
		}
		for rank, step := range g.life.ranks {
			if g.home[rank-g.first] == n.key {
				step.End(why)
				delete(g.life.ranks, rank)
			}
		}
	}
}

func (l *groupTimes) host(n *member) *hostTimes {
	if l == nil {
		return nil
	}
	return l.hosts[n]
}

// settleTimes ends what is still open in the timeline when a fleet's job is over, and notes how long it took from the
// last rank's end to the end of all.
func (f *fleet) settleTimes() {
	if f.env.Timeline == nil {
		return
	}
	for _, g := range f.groups {
		g.life.end(errUnknownEnd)
	}
	if !f.quiet.IsZero() {
		f.env.Timeline.Add(timeline.Row{}, timeline.End, f.quiet)
	}
}

// errPruned is what a timeline has of a spawned group of which one rank could not be started.
var errPruned = errors.New("a rank of the group could not be started")

// errUnknownEnd is what a timeline has of ranks whose end nobody has told of.
var errUnknownEnd = errors.New("its end is not known")

// life is the step of mpiexec around an attempt of a job, or all of one that has no others.
func (l *lives) life() timeline.Step {
	if !l.first.Restart.Several() {
		return l.env.Timeline.Begin(timeline.Row{}, timeline.Job)
	}
	return l.env.Timeline.Begin(timeline.Row{}, fmt.Sprintf("%s %d", timeline.Attempt, len(l.attempts)))
}

// endLife ends the step of an attempt, and tells why it has ended if it was not well. A move is no failure.
func endLife(life timeline.Step, f *fleet, err error) {
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
		if line := slowest(e.Timeline.Trace()); line != "" {
			said.Msg(line)
		}
	}
}

// slowest is the line that -v ends with: which hosts took longest to start, and what of it; empty where that
// would be all of them.
func slowest(t timeline.Trace) string {
	const named = 3
	slow, hosts := timeline.Slowest(t, named)
	if hosts <= named {
		return ""
	}
	words := ""
	for i, s := range slow {
		if i > 0 {
			words += ", "
		}
		words += fmt.Sprintf("%s %s (%s %s", s.Host, brieftime(s.Took), s.Step.Step, brieftime(s.Step.Took()))
		if s.Step.Why != "" {
			words += ", failed"
		}
		words += ")"
	}
	return "slowest hosts: " + words
}

// brieftime writes a time as the log does: 1.234s, 12ms.
func brieftime(d time.Duration) string { return d.Round(time.Millisecond).String() }
