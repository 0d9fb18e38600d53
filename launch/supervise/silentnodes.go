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
	SilenceCheckEvery = 5 * time.Second // between two looks
	askBatchAfter     = 30 * time.Second
	maxSilence        = 45 * time.Second
	maxCheckDelay     = 5 * time.Second // a look that comes so much too late means that we did not run
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
type SilentNodes struct {
	nodes       map[int]nodeSilence
	checkedAt   time.Time // zero: not yet
	countedFrom time.Time // when counting began again, for all
	askingBatch bool
}

type nodeSilence struct {
	since            time.Time // it was heard then, or the count began again
	batchSaysRunning bool      // the batch system has said since that the job runs
	askNext          time.Time // not to be asked for before
}

// Check takes when each node was last heard, and reports whether the batch system is to be asked.
func (s *SilentNodes) Check(heard map[int]time.Time, now time.Time) (ask bool) {
	if s.checkedAt.IsZero() || now.Sub(s.checkedAt) > SilenceCheckEvery+maxCheckDelay {
		s.countedFrom, s.nodes = now, nil
	}
	s.checkedAt = now
	nodes := make(map[int]nodeSilence, len(heard))
	for node, at := range heard {
		since := s.countedFrom
		if at.After(since) {
			since = at
		}
		n := s.nodes[node]
		if n.since != since {
			n = nodeSilence{since: since}
		}
		nodes[node] = n
		ask = ask || n.isDue(now)
	}
	s.nodes = nodes
	ask = ask && !s.askingBatch
	s.askingBatch = s.askingBatch || ask
	return ask
}

// isDue reports whether somebody should be asked about a node.
func (n nodeSilence) isDue(now time.Time) bool {
	if now.Before(n.askNext) {
		return false
	}
	if n.batchSaysRunning {
		return now.Sub(n.since) >= maxSilence
	}
	return now.Sub(n.since) >= askBatchAfter
}

// BatchReplied takes what the batch system has said, of system, and returns what has come of it.
func (s *SilentNodes) BatchReplied(said batch.State, system string, now time.Time) (news []Event) {
	s.askingBatch = false
	if said == batch.Over {
		s.nodes = nil
		return []Event{Failure{Kind: BatchEndsJob}}
	}
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[node]
		switch {
		case !n.isDue(now):
		case said != batch.Runs:
			n.batchSaysRunning, n.askNext = false, now.Add(askBatchAfter)
		case n.batchSaysRunning:
			why := fmt.Sprintf("silent for %v; %s says the job runs", now.Sub(n.since).Round(time.Second), system)
			news = append(news, NodeLost{Node: node, Why: why})
			n.askNext = now.Add(askBatchAfter)
		default:
			n.batchSaysRunning = true
		}
		s.nodes[node] = n
	}
	return news
}
