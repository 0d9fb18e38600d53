package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/stack"
)

// A Policy says how a job is watched for progress.
type Policy struct {
	After time.Duration // how long nothing changes before that is reported
	Plain bool          // also programs that do not call PMI
}

// rounds is how many times the stacks are read before a job is reported as hanging. Ranks that only seem to hang may
// continue between two readings.
const rounds = 4

// spacing returns the time between two readings of the stacks. after is the --hang time. A short time between two
// readings may fall into one long call of MPI.
func spacing(after time.Duration) time.Duration {
	return min(max(after/30, time.Second), after/4, 2*time.Second)
}

// A Watch decides whether one attempt of a job (one run of all ranks) makes progress. The current time is a
// parameter of its methods.
type Watch struct {
	Policy
	nodes     map[int]*node // by key; those without ranks are not there
	suspended bool
	resumed   time.Time // when the ranks were continued last
	doublings int       // of Policy.After, until the next report
	round     int       // how many readings have found that the job hangs
	reading   bool      // the stacks are being read
	since     time.Time // when something changed last on any node, as of the first reading
}

// A node contains the last report of one node, and when it arrived.
type node struct {
	Report
	at    time.Time
	since time.Time // when something changed last; unset: it changes
}

// NewWatch returns the Watch of a job that runs on nodes with the given keys.
func NewWatch(p Policy, nodes []int) *Watch {
	w := &Watch{Policy: p, nodes: make(map[int]*node)}
	for _, key := range nodes {
		w.AddNode(key)
	}
	return w
}

// AddNode adds a node on which ranks are started. It does nothing if the Watch already contains the node.
func (w *Watch) AddNode(key int) {
	if w.nodes[key] == nil {
		w.nodes[key] = new(node)
		w.progress()
	}
}

// RemoveNode removes a node that runs no more ranks.
func (w *Watch) RemoveNode(key int) {
	if w.nodes[key] != nil {
		delete(w.nodes, key)
		w.progress()
	}
}

// AddReport adds the report of a node.
func (w *Watch) AddReport(key int, r Report, now time.Time) {
	n := w.nodes[key]
	if n == nil {
		return
	}
	since := now.Add(-r.For)
	switch {
	case r.For == 0:
		n.since = time.Time{}
		w.progress()
	case n.since.IsZero() || since.Sub(n.since) > w.After/4: // a rank has made progress in the meantime
		n.since = since
		w.progress()
	}
	n.Report, n.at = r, now
}

// Suspend records that the ranks were stopped, or that they are running again.
func (w *Watch) Suspend(stopped bool, now time.Time) {
	if w.suspended && !stopped {
		w.resumed = now
		w.progress()
	}
	w.suspended = stopped
}

// progress restarts the watch, because something has changed.
func (w *Watch) progress() { w.doublings, w.round = 0, 0 }

// quietSince returns the time of the last change. quiet is false if a node has not yet reported that nothing changes, if
// a process waits for the user, or if the job is not being watched at present.
func (w *Watch) quietSince() (since time.Time, quiet bool) {
	since = w.resumed
	pmi := w.Plain
	for _, n := range w.nodes {
		if n.since.IsZero() || n.User {
			return since, false
		}
		if n.since.After(since) {
			since = n.since
		}
		pmi = pmi || n.PMI
	}
	return since, pmi && !w.suspended && len(w.nodes) > 0
}

// NextReading reports whether the stacks must be read now. If not, next is the time at which NextReading must be called
// again. If next is the zero time, NextReading must be called again after the next change.
func (w *Watch) NextReading(now time.Time) (read bool, next time.Time) {
	since, quiet := w.quietSince()
	if !quiet || w.reading {
		return false, time.Time{}
	}
	at := since.Add(w.After<<w.doublings - time.Duration(rounds-1-w.round)*spacing(w.After))
	if now.Before(at) {
		return false, at
	}
	w.reading, w.since = true, since
	return true, time.Time{}
}

// A Reading summarizes the stacks of all ranks at one moment.
type Reading struct {
	Groups []job.StackGroup // of main threads
	Calls  []string         // by group, the MPI call that it is in; empty: none
	Size   int              // ranks of the job
	Moved  []int            // ranks that have done something since the last reading

	Computing []int // ranks with a thread, other than the main thread, that computes
}

// A Verdict is the conclusion from a reading.
type Verdict struct {
	Hangs bool          // the job makes no progress: the user is to read that
	Quiet time.Duration // how long nothing has changed
	Why   string        // why the job may go on; empty: it hangs, or there are more readings to come
}

// AddReading adds the stacks that NextReading has requested, and returns the conclusion.
func (w *Watch) AddReading(r Reading, now time.Time) Verdict {
	w.reading = false
	since, stays := w.quietSince()
	if !stays || since != w.since {
		w.round = 0
		return Verdict{Quiet: now.Sub(w.since), Why: "a rank has made progress in the meantime"}
	}
	quiet := now.Sub(since)
	if why := w.goesOn(r); why != "" {
		w.round = 0
		w.wait(quiet)
		return Verdict{Quiet: quiet, Why: why}
	}
	if w.round++; w.round < rounds {
		return Verdict{Quiet: quiet}
	}
	w.round = 0
	w.wait(quiet)
	return Verdict{Hangs: true, Quiet: quiet}
}

// wait puts off the next reading: the time without a change after which the stacks are read is doubled until it is
// longer than quiet. quiet is how long nothing has changed so far.
func (w *Watch) wait(quiet time.Duration) {
	const maxDoublings = 20 // of a minute: two years
	for w.doublings < maxDoublings && w.After<<w.doublings <= quiet+rounds*spacing(w.After) {
		w.doublings++
	}
}

// goesOn returns why a rank may continue by itself, or "" if no rank can.
func (w *Watch) goesOn(r Reading) string {
	var awake, seen []int
	for _, n := range w.nodes {
		awake = append(awake, n.Awake...)
	}
	for i, g := range r.Groups {
		seen = append(seen, g.Ranks...)
		outside := r.Calls[i] == "" && g.State != job.StackStopped && g.State != job.StackEnded
		switch {
		case r.Calls[i] == "MPI_Comm_accept":
			return fmt.Sprintf("rank %d waits for another job to connect", g.Ranks[0])
		case strings.HasSuffix(g.Note, stack.TracedNote):
			return fmt.Sprintf("a debugger traces rank %d", g.Ranks[0])
		case outside && g.State == job.StackRuns:
			return fmt.Sprintf("rank %d is computing", g.Ranks[0])
		case outside && w.round == 0:
			if at := slices.IndexFunc(g.Ranks, func(rank int) bool { return slices.Contains(awake, rank) }); at >= 0 {
				return fmt.Sprintf("rank %d sometimes wakes up, or sleeps for a limited time", g.Ranks[at])
			}
		}
	}
	slices.Sort(seen)
	switch missing := r.Size - len(slices.Compact(seen)); {
	case missing > 0:
		return fmt.Sprintf("the stacks of %d of %d ranks could not be read", missing, r.Size)
	case len(r.Computing) > 0:
		return fmt.Sprintf("a thread of rank %d is computing", r.Computing[0])
	case w.round > 0 && len(r.Moved) > 0:
		return fmt.Sprintf("rank %d has left the call in which it waited", r.Moved[0])
	}
	return ""
}
