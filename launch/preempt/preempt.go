/*
Package preempt decides about jobs that give way (survive.md 9): whom a request asks to, and how long one that did
waits for what it was asked for. All of it is pure.

	request --Asks--> may it? --Choose--> whom? --- ask "yield" ---> job: Grudges.Holds? suspended, or queued again
	                                                                  |
	                     goes on <--- nobody has what it gave up, ----'
	                                  or did not take it in Patience

There are no priorities: who asks is next in any case, and only jobs whose users allow it give way.
*/
package preempt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/plan"
)

// A Standing is where a request stands that has no place.
type Standing struct {
	Ahead   int  // requests that wait before it
	Passes  bool // it goes round those who wait: inside of a job, or past a head that wants none of its nodes
	Granted bool // a batch system has decided whose its hosts are
	Gives   bool // its own job gives way to others
}

// Asks reports whether a request that failed so may ask others to give way (SV-33): the one whose turn it is, for room that
// there can be. A job that gives way itself asks nobody: of two such jobs each would have the other end, for ever.
func Asks(s Standing, failed *plan.Error) bool {
	return failed != nil && !failed.Permanent && failed.Code != plan.QueueBusy && failed.Code != plan.Delayed &&
		s.Ahead == 0 && !s.Passes && !s.Granted && !s.Gives
}

// A Victim is a job that is asked to give way.
type Victim struct {
	Job   job.ID
	UID   int
	User  string
	How   job.Yielding
	Since time.Time
	Nodes []int // indices into Snapshot.Nodes, where it holds something
}

// Whose is the job it is.
func (v Victim) Whose() job.Whose { return job.Whose{Job: v.Job, UID: v.UID} }

// String names it, with its user and the way in which it gives way.
func (v Victim) String() string { return fmt.Sprintf("job %s of %s (%s)", v.Job, v.User, v.How) }

// most bounds how many jobs are thought about, the youngest ones.
const most = 256

// Choose is which jobs have to give way for a request to have a plan: the youngest ones, and none without which
// there is one as well; nil: there is none even so. fits reports whether a plan can be made with what a snapshot has free. Who is
// spared is not asked.
func Choose(snap job.Snapshot, fits func(job.Snapshot) bool, spared func(Victim) bool) []Victim {
	willing := slices.DeleteFunc(victims(snap), spared)
	willing = willing[:min(len(willing), most)]
	if len(willing) == 0 || !fits(Without(snap, willing)) {
		return nil
	}
	low, high := 1, len(willing) // so many of the youngest are enough; more never are too many
	for low < high {
		if middle := (low + high) / 2; fits(Without(snap, willing[:middle])) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	chosen := slices.Clone(willing[:high])
	for i := len(chosen) - 2; i >= 0; i-- { // the last one is needed
		if fewer := slices.Delete(slices.Clone(chosen), i, i+1); fits(Without(snap, fewer)) {
			chosen = fewer
		}
	}
	return chosen
}

// victims are the jobs that would give way, youngest first.
func victims(snap job.Snapshot) (all []Victim) {
	at := make(map[job.Whose]int)
	for n := range snap.Nodes {
		for _, w := range snap.Nodes[n].Willing {
			if !w.How.Known() {
				continue
			}
			i, known := at[w.Whose()]
			if !known {
				i, at[w.Whose()] = len(all), len(all)
				all = append(all, Victim{Job: w.Job, UID: w.UID, User: w.User, How: w.How, Since: w.Since})
			}
			v := &all[i]
			if v.Nodes = append(v.Nodes, n); w.Since.Before(v.Since) {
				v.Since = w.Since
			}
		}
	}
	slices.SortFunc(all, func(a, b Victim) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(b.Job, a.Job), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// Without is a snapshot as it would be if these had given way.
func Without(snap job.Snapshot, gone []Victim) job.Snapshot {
	gives := func(w job.Willing) bool {
		return slices.ContainsFunc(gone, func(v Victim) bool { return v.Whose() == w.Whose() })
	}
	snap.Nodes = slices.Clone(snap.Nodes)
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !slices.ContainsFunc(n.Willing, gives) {
			continue
		}
		own := n.Own
		n.Use = n.Firm
		n.Own = own
		for _, w := range n.Willing {
			if gives(w) {
				n.Use = n.Use.And(w.Keeps())
			} else {
				n.Use = n.Use.And(w.Holds())
			}
		}
	}
	return snap
}

// forWord begins the word of an ask that says for which job another is to give way.
const forWord = "for="

// Words are those of an ask for a job.
func Words(id job.ID) []string { return []string{forWord + string(id)} }

// For is the job for which somebody asks, as he says; empty: he says nonsense.
func For(words []string) job.ID {
	if len(words) != 1 {
		return ""
	}
	id, is := strings.CutPrefix(words[0], forWord)
	if !is || len(id) > 40 || strings.Trim(strings.ToLower(id), "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
		return ""
	}
	return job.ID(id)
}

// Times of SV-33.
const (
	Patience = 30 * time.Second // how long a job waits for its CPUs to be claimed by who wanted them
	sulking  = 10 * time.Minute // how long a user is refused who did not, and a job is not asked that did not give way
)

// Grudges are with whom nobody has to do for a while: a job, with the users for whom it has given way for nothing; a request, with
// the jobs that it has asked. The zero value is of nobody.
type Grudges[K comparable] struct{ until map[K]time.Time }

// Note remembers one from now on.
func (g *Grudges[K]) Note(who K, now time.Time) {
	if g.until == nil {
		g.until = make(map[K]time.Time)
	}
	for old, until := range g.until {
		if !now.Before(until) {
			delete(g.until, old)
		}
	}
	g.until[who] = now.Add(sulking)
}

// Holds is until when one is remembered; zero: he is not.
func (g *Grudges[K]) Holds(who K, now time.Time) time.Time {
	if until := g.until[who]; now.Before(until) {
		return until
	}
	return time.Time{}
}
