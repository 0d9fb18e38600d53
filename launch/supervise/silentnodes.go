package supervise

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/batch"
)

// These times determine when a silent node is checked, and when it counts as lost (rule RM-40). When a node has
// been silent for askBatchAfter, mpiexec asks the batch system for the state of the batch job. If the batch job is
// running, mpiexec asks again when the node has been silent for maxSilence. If the batch job is still running then, the
// node counts as lost.
const (
	SilenceCheckEvery = 5 * time.Second // between two checks
	askBatchAfter     = 30 * time.Second
	maxSilence        = 45 * time.Second
	maxCheckDelay     = 5 * time.Second // a check that is later than this means that mpiexec itself did not run
)

/*
SilentNodes finds nodes that no longer send Pings. A batch system may notice late or never that a host is
gone. So helpers that were started by a batch system send Pings.

	last message   30 s            45 s
	  |--------------|---------------|
	                 ask: runs       ask: runs    lost
	                 ask: suspended, unknown      wait, ask again in 30 s
	                 ask: over                    the batch system ends the job

Time in which mpiexec itself was stopped does not count. There is one query at a time. The zero value is
ready for use.
*/
type SilentNodes struct {
	nodes       map[int]nodeSilence
	checkedAt   time.Time // of the last check; zero: there was none
	countedFrom time.Time // silence before this does not count for any node
	askingBatch bool
}

type nodeSilence struct {
	since            time.Time // time of the last message, or countedFrom
	batchSaysRunning bool      // the batch system has since reported that the job runs
	askNext          time.Time // do not ask before
}

// Check updates the times at which each node last sent a message. It reports whether mpiexec must ask the
// batch system about a silent node.
func (s *SilentNodes) Check(lastHeard map[int]time.Time, now time.Time) (mustAsk bool) {
	if s.checkedAt.IsZero() || now.Sub(s.checkedAt) > SilenceCheckEvery+maxCheckDelay {
		s.countedFrom, s.nodes = now, nil
	}
	s.checkedAt = now
	nodes := make(map[int]nodeSilence, len(lastHeard))
	for node, at := range lastHeard {
		since := s.countedFrom
		if at.After(since) {
			since = at
		}
		n := s.nodes[node]
		if n.since != since {
			n = nodeSilence{since: since}
		}
		nodes[node] = n
		mustAsk = mustAsk || n.isDue(now)
	}
	s.nodes = nodes
	mustAsk = mustAsk && !s.askingBatch
	s.askingBatch = s.askingBatch || mustAsk
	return mustAsk
}

// isDue reports whether mpiexec must now ask the batch system about a node.
func (n nodeSilence) isDue(now time.Time) bool {
	if now.Before(n.askNext) {
		return false
	}
	if n.batchSaysRunning {
		return now.Sub(n.since) >= maxSilence
	}
	return now.Sub(n.since) >= askBatchAfter
}

// BatchReplied handles the batch system's reply about the state of the batch job, and returns the events that
// follow from it. system is the name of the batch system.
func (s *SilentNodes) BatchReplied(state batch.State, system string, now time.Time) (events []Event) {
	s.askingBatch = false
	if state == batch.Over {
		s.nodes = nil
		return []Event{Failure{Kind: BatchEndsJob}}
	}
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[node]
		switch {
		case !n.isDue(now):
		case state != batch.Runs:
			n.batchSaysRunning, n.askNext = false, now.Add(askBatchAfter)
		case n.batchSaysRunning:
			why := fmt.Sprintf("no message for %v, although %s reports that the job runs", now.Sub(n.since).Round(time.Second), batch.Title(system))
			events = append(events, NodeLost{Node: node, Why: why})
			n.askNext = now.Add(askBatchAfter)
		default:
			n.batchSaysRunning = true
		}
		s.nodes[node] = n
	}
	return events
}
