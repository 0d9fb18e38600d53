package supervise

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/batch"
)

// Times of nodes that fall silent (RM-40). A node that is silent for askAfter is doubted: the batch
// system is asked of the job, and if that runs, once more after silentMost, when it is lost.
const (
	SilenceLook = 5 * time.Second // between two looks
	askAfter    = 30 * time.Second
	silentMost  = 45 * time.Second
	stoppedMost = 5 * time.Second // a look that comes so much too late means that we did not run
)

/*
Silences judges nodes that say nothing. A starter of a batch system notices the loss of a host when that
does, if ever: so helpers that one has started give a sign of life, and here is how long is waited for it.

	heard          30 s            45 s
	  |--------------|---------------|
	                 ask: runs       ask: runs    lost
	                 ask: suspended, unknown      wait on, ask again in 30 s
	                 ask: over                    the batch system ends the job

Only time in which we ran ourselves counts. Asking takes time; meanwhile nothing is asked. The zero
value is ready.
*/
type Silences struct {
	nodes  map[int]silence
	looked time.Time // zero: not yet
	from   time.Time // when counting began again, for all
	asking bool
}

type silence struct {
	since time.Time // it was heard then, or the count began again
	runs  bool      // the batch system has said since that the job runs
	next  time.Time // not to be asked for before
}

// Look takes when each node was last heard, and reports whether the batch system is to be asked.
func (s *Silences) Look(heard map[int]time.Time, now time.Time) (ask bool) {
	if s.looked.IsZero() || now.Sub(s.looked) > SilenceLook+stoppedMost {
		s.from, s.nodes = now, nil
	}
	s.looked = now
	nodes := make(map[int]silence, len(heard))
	for node, at := range heard {
		since := s.from
		if at.After(since) {
			since = at
		}
		n := s.nodes[node]
		if n.since != since {
			n = silence{since: since}
		}
		nodes[node] = n
		ask = ask || n.due(now)
	}
	s.nodes = nodes
	ask = ask && !s.asking
	s.asking = s.asking || ask
	return ask
}

// due reports whether somebody should be asked about a node.
func (n silence) due(now time.Time) bool {
	if now.Before(n.next) {
		return false
	}
	if n.runs {
		return now.Sub(n.since) >= silentMost
	}
	return now.Sub(n.since) >= askAfter
}

// Told takes what the batch system has said, of system, and returns what has come of it.
func (s *Silences) Told(said batch.State, system string, now time.Time) (news []Event) {
	s.asking = false
	if said == batch.Over {
		s.nodes = nil
		return []Event{Failed{Kind: RMEnds}}
	}
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[node]
		switch {
		case !n.due(now):
		case said != batch.Runs:
			n.runs, n.next = false, now.Add(askAfter)
		case n.runs:
			why := fmt.Sprintf("silent for %v; %s says the job runs", now.Sub(n.since).Round(time.Second), system)
			news = append(news, NodeLost{Node: node, Why: why})
			n.next = now.Add(askAfter)
		default:
			n.runs = true
		}
		s.nodes[node] = n
	}
	return news
}
