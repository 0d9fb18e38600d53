package machine

import (
	"slices"
	"strings"
	"time"

	"remshell/job"
)

// A Policy says how a job is watched.
type Policy struct {
	After time.Duration // how long nothing changes before that is reported
	Plain bool          // also programs that do not call PMI
}

// rounds is how many times the stacks are read before a job is reported. Ranks that only seem to hang may
// continue between two readings.
const rounds = 4

// spacing returns the time between two readings.
func spacing(after time.Duration) time.Duration { return min(after/30, 2*time.Second) }

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

// A node contains what a node has reported.
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

// AddNode adds a node on which ranks are started. It does nothing if the Watch has the node already.
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
	case n.since.IsZero() || since.Sub(n.since) > w.After/4: // something has changed meanwhile
		n.since = since
		w.progress()
	}
	n.Report, n.at = r, now
}

// Suspend records that the ranks were stopped, or that they run again.
func (w *Watch) Suspend(stopped bool, now time.Time) {
	if w.suspended && !stopped {
		w.resumed = now
		w.progress()
	}
	w.suspended = stopped
}

// progress starts to watch from the beginning, because something has changed.
func (w *Watch) progress() { w.doublings, w.round = 0, 0 }

// quietSince returns when the last change was. quiet is false if there are still changes, or if the job is
// not being watched at present.
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

// NextReading reports whether the stacks must be read now. If not, next is the time at which NextReading must
// be called again. The zero time means after the next change.
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
}

// AddReading adds the stacks that NextReading has requested. If the job makes no progress, hangs is true, and
// quiet is how long the job has made none.
func (w *Watch) AddReading(r Reading, now time.Time) (hangs bool, quiet time.Duration) {
	w.reading = false
	since, stays := w.quietSince()
	if !stays || since != w.since {
		w.round = 0
		return false, 0
	}
	if w.goesOn(r) {
		w.round = 0
		w.wait(now.Sub(since))
		return false, 0
	}
	if w.round++; w.round < rounds {
		return false, 0
	}
	w.round = 0
	quiet = now.Sub(since)
	w.wait(quiet)
	return true, quiet
}

// wait doubles the time until the next reading, until that time is later than quiet.
func (w *Watch) wait(quiet time.Duration) {
	const most = 20 // doublings: two years of minutes
	for w.doublings < most && w.After<<w.doublings <= quiet+rounds*spacing(w.After) {
		w.doublings++
	}
}

// goesOn reports whether a rank may continue by itself.
func (w *Watch) goesOn(r Reading) bool {
	var awake, seen []int
	for _, n := range w.nodes {
		awake = append(awake, n.Awake...)
	}
	for i, g := range r.Groups {
		seen = append(seen, g.Ranks...)
		if r.Calls[i] == "" && g.State != job.StackStopped && g.State != job.StackEnded && (g.State == job.StackRuns || w.round == 0 && containsAny(awake, g.Ranks)) {
			return true
		}
		if strings.HasSuffix(g.Note, debuggerNote) {
			return true
		}
	}
	slices.Sort(seen)
	return len(slices.Compact(seen)) < r.Size || w.round > 0 && len(r.Moved) > 0
}

// debuggerNote is the text at the end of the note of a group of ranks that a debugger traces.
const debuggerNote = "traces it already"

func containsAny(list, ranks []int) bool {
	return slices.ContainsFunc(ranks, func(rank int) bool { return slices.Contains(list, rank) })
}
