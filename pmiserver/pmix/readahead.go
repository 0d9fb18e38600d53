package pmix

import (
	"iter"
	"slices"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// Bounds of what an answer has beside what was asked for (PMIX-69).
const (
	maxReadAhead      = 256       // ranks
	maxReadAheadBytes = 128 << 10 // of the answer as a whole
	procOverhead      = 64        // bytes that go with the data of a rank, as a rule
)

// A readSequence notices that a client asks for one rank after the other, as an MPI does whose ranks all
// connect. With the answer it is told then of ranks that come next, each time of twice as many, as a
// kernel reads a file ahead:
//
//	asked for    0    1     3       6         11
//	told of      0    1-2   3-5     6-10      11-19   ...
//
// Its library keeps all that it is told, and asks for none of that again: n ranks are log n questions.
// It belongs to the goroutine of the client.
type readSequence struct {
	group *group
	last  int // where in a list of ranks the client has asked last
	count int // how many ranks behind that one it was told of at most
}

// nextCount notes a question, and returns of how many ranks behind it the client is to be told. The
// client's own rank, for which it need not ask, and what was left out of an answer leave gaps; none is
// larger than what was offered.
func (s *readSequence) nextCount(of *group, at, size int) (reach int) {
	step := (at - s.last + size) % size
	next := min(max(1, 2*s.count), maxReadAhead)
	if of != s.group || step == 0 || step > s.count+1 {
		next = 0
	}
	*s = readSequence{of, at, next}
	return next
}

// A readAhead is of how many ranks behind the one that it asks for a client is told, as far as they
// have the same key.
type readAhead struct {
	count int
	key   string
}

// readAheadFor notes for which rank the client asks. Those of this node and those of others are two
// sequences: a client may ask for the ranks of its node alone, between which there are others when
// ranks are dealt out in turns.
func (c *client) readAheadFor(g *group, rank int, key string) readAhead {
	i, near := slices.BinarySearch(g.Ranks, rank)
	if near {
		return readAhead{c.nodeReads.nextCount(g, i, len(g.Ranks)), key}
	}
	return readAhead{c.remoteReads.nextCount(g, rank-i, g.Size-len(g.Ranks)), key}
}

// appendReadAhead adds to the answer about a rank what is known here of those behind it, as long as it
// stays small.
func (c *client) appendReadAhead(reply []byte, g *group, rank int, ahead readAhead) []byte {
	for next := range g.nextRanks(rank, ahead.count) {
		if g == c.group && next == c.rank.number {
			continue
		}
		pairs := g.committedPairs(next, ahead.key)
		if pairs == nil || len(reply)+len(pairs) > maxReadAheadBytes {
			break
		}
		reply = message.AppendKnown(reply, bfrops.Proc{Namespace: g.Namespace, Rank: bfrops.Rank(next)}, pairs)
	}
	return reply
}

// nextRanks lists the next ranks behind one: of this node if that is, else of others.
func (g *group) nextRanks(rank, reach int) iter.Seq[int] {
	if i, near := slices.BinarySearch(g.Ranks, rank); near {
		return slices.Values(g.Ranks[i+1 : min(i+1+reach, len(g.Ranks))])
	}
	return func(yield func(int) bool) {
		for next, left := rank+1, reach; left > 0 && next < g.Size; next++ {
			if g.byRank[next] != nil {
				continue
			}
			if left--; !yield(next) {
				return
			}
		}
	}
}

// committedPairs returns what is here of a rank, of this node or another one, if it has a key.
func (g *group) committedPairs(rank int, key string) []byte {
	near := g.byRank[rank]
	if near == nil {
		return g.knownPairs(rank, key)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !near.nodePairs.hasKey(key) {
		return nil
	}
	return near.nodePairs.pairs
}
