package pmix

import (
	"iter"
	"slices"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// These are limits for the data of further ranks that a reply to a Get may contain (rule PMIX-69).
const (
	maxReadAhead      = 256       // ranks
	maxReadAheadBytes = 128 << 10 // size of the whole reply
	procOverhead      = 64        // typical bytes that each rank adds beside its data
)

// A readSequence detects that a client requests the data of one rank after another, as an MPI library does if all ranks
// connect to each other. From then on, each reply also contains the data of the next ranks. The number of these ranks
// doubles from reply to reply. Kernels read files ahead in the same way:
//
//	requested    0    1     3       6         11
//	sent         0    1-2   3-5     6-10      11-19   ...
//
// The client's library stores all received data and does not request it again. So the data of n ranks needs
// only about log n Gets. A readSequence belongs to the goroutine of the client.
type readSequence struct {
	group *group
	last  int // index, in a list of ranks, of the last Get
	count int // ranks after last that the reply carried at most
}

// nextCount records a Get, and returns for how many further ranks the reply must contain data. at is the
// requested rank, and size is the number of ranks of the group. A sequence may skip ranks, such as the client's
// own. A Get that skips more ranks than the last count begins a new sequence.
func (s *readSequence) nextCount(g *group, at, size int) (count int) {
	step := (at - s.last + size) % size
	next := min(max(1, 2*s.count), maxReadAhead)
	if g != s.group || step == 0 || step > s.count+1 {
		next = 0
	}
	*s = readSequence{g, at, next}
	return next
}

// A readAhead says how many further ranks are added to the reply to a Get. The list of these ranks ends before the
// first one whose data does not contain key.
type readAhead struct {
	count int
	key   string
}

// readAheadFor records a client's Get of a rank, and returns for which further ranks the reply must contain data. The
// ranks of this node and the ranks of other nodes form separate sequences, because with cyclic placement the ranks of
// one node do not have consecutive numbers.
func (c *client) readAheadFor(g *group, rank int, key string) readAhead {
	i, isLocal := slices.BinarySearch(g.Ranks, rank)
	if isLocal {
		return readAhead{c.nodeReads.nextCount(g, i, len(g.Ranks)), key}
	}
	return readAhead{c.remoteReads.nextCount(g, rank-i, g.Size-len(g.Ranks)), key}
}

// appendReadAhead appends to a reply the data of up to ahead.count ranks that follow the given rank. It stops before a
// rank whose data this node does not have, and before the reply exceeds maxReadAheadBytes.
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

// nextRanks returns up to count ranks that follow the given rank. If the given rank is on this node, the returned ranks
// are on this node, too. Otherwise they are on other nodes.
func (g *group) nextRanks(rank, count int) iter.Seq[int] {
	if i, isLocal := slices.BinarySearch(g.Ranks, rank); isLocal {
		return slices.Values(g.Ranks[i+1 : min(i+1+count, len(g.Ranks))])
	}
	return func(yield func(int) bool) {
		for next, left := rank+1, count; left > 0 && next < g.Size; next++ {
			if g.byRank[next] != nil {
				continue
			}
			if left--; !yield(next) {
				return
			}
		}
	}
}

// committedPairs returns the committed data of a rank. It returns nil if this node does not have the data, or
// the data does not contain the key. The rank may be on any node.
func (g *group) committedPairs(rank int, key string) []byte {
	local := g.byRank[rank]
	if local == nil {
		return g.knownPairs(rank, key)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !local.nodePairs.hasKey(key) {
		return nil
	}
	return local.nodePairs.pairs
}
