package pmix

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
)

// A group is the ranks of this node that have one namespace, and what they and others have
// committed.
type group struct {
	Group
	server *Server
	byRank map[int]*localRank
	ending atomic.Bool // none of its ranks waits for others any more

	// fenceData is what fences have brought of ranks of other nodes: the bytes of each rank, as it
	// has committed them. It never changes, and is replaced as a whole; nil: nothing was brought.
	fenceData atomic.Pointer[[][]byte]

	jobInfoMu sync.Mutex    // guards the next two, and is held while mpiexec is asked
	view      *jobinfo.View // nil: not yet known
	info      []byte        // the answer to a Req: packs of one KVAL each

	mu        sync.Mutex // guards the localRanks, and
	keptBytes int        // bytes that its ranks have committed, and that were fetched
	remote    remoteData
}

// A localRank is a rank of this node.
type localRank struct {
	number  int
	state   State
	clients []*client
	exited  bool // its process has ended

	nodePairs, remotePairs pairSet // what it has committed
	hasCommitted           bool
	keptBytes              int // what that takes, in bytes
	sentBytes              int // bytes of forOthers that fences of the whole group have taken

	waitingGets  getQueue // Gets of others
	awaitedNames []string // names for which its clients wait

	madeGroups  map[string][]bfrops.Proc // members of groups that it has made, by their names
	madeMembers int                      // of all of them

	noteCount    atomic.Int32 // that were told of it
	nameRequests atomic.Int32 // names for which requests of its clients are under way
	eventCodes   atomic.Int32 // of events that its clients have registered
	notices      atomic.Int32 // events of its clients that are on their way to mpiexec
	queuedBytes  atomic.Int64 // bytes that wait for its clients to read
	gets         atomic.Int32 // of its clients that are not answered
	spawns       atomic.Int32 // that are under way
}

// A pairSet is what a rank shows to others: packs of one KVAL each, which only grow, and their keys.
type pairSet struct {
	pairs []byte
	keys  map[string]bool
}

// keyOverhead is what a key of a showing counts for, beside its pair: they are not to cost more than they count.
const keyOverhead = 64

func (s *pairSet) addPairs(pairs []byte, keys []string) {
	s.pairs = append(s.pairs, pairs...)
	if s.keys == nil {
		s.keys = make(map[string]bool, len(keys))
	}
	for _, key := range keys {
		s.keys[key] = true
	}
}

// hasKey is hasKey, however much there is.
func (s *pairSet) hasKey(key string) bool { return s.keys[key] || key == "" && len(s.pairs) > 0 }

func newGroup(s *Server, g Group) *group {
	added := &group{Group: g, server: s, byRank: make(map[int]*localRank, len(g.Ranks))}
	for _, number := range g.Ranks {
		added.byRank[number] = &localRank{number: number}
	}
	return added
}

// findRank finds a rank of this node; nil: it is none.
func (g *group) findRank(number int64) *localRank { return g.byRank[int(number)] }

// addClient notes a client of a rank, unless it has too many.
func (g *group) addClient(c *client) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(c.rank.clients) >= maxConnsPerRank {
		return false
	}
	c.rank.clients = append(c.rank.clients, c)
	c.state = Connected
	if c.rank.state == Absent {
		c.rank.state = Connected
	}
	return true
}

// isEnding reports whether nobody is to wait for others any more (PMIX-64).
func (g *group) isEnding() bool { return g.server.ending.Load() || g.ending.Load() }

func (g *group) removeClient(c *client) {
	c.rank.eventCodes.Add(-int32(c.eventCodes.clear()))
	g.mu.Lock()
	defer g.mu.Unlock()
	c.rank.clients = slices.DeleteFunc(c.rank.clients, func(other *client) bool { return other == c })
}

// reportConnEnd tells how a connection has ended, unless that is as it should be: by finalize, or with
// another one of the same rank still open (pmix-wire.md 10).
func (g *group) reportConnEnd(c *client, err error) {
	g.mu.Lock()
	others := len(c.rank.clients)
	g.mu.Unlock()
	switch {
	case err == nil || g.server.ctx.Err() != nil:
	case isJunk(err):
		if g.Junk != nil {
			g.Junk(c.rank.number, err)
		}
	case others == 0 && g.Lost != nil:
		g.Lost(c.rank.number, err)
	}
}

func (g *group) setState(r *localRank, to State) {
	g.mu.Lock()
	r.state = to
	var waiting []*pendingGet
	if to == Finalized {
		waiting = r.waitingGets.takeAll(anyGet)
	}
	g.mu.Unlock()
	finishAll(waiting, message.NotFound) // (PMIX-34)
	if g.StateChanged != nil {
		g.StateChanged(r.number, to)
	}
}

// maxNotes is how many oddities of one rank are told (TRUST-24).
const maxNotes = 100

func (g *group) reportNote(rank int, text string) {
	told := &g.byRank[rank].noteCount
	if g.Note == nil || told.Load() >= maxNotes {
		return
	}
	switch n := told.Add(1); {
	case n < maxNotes:
		g.Note(rank, text)
	case n == maxNotes:
		g.Note(rank, text+"; no more such notes of this rank")
	}
}

// rankExited notes that the process of a rank has ended. Who waits for a key of it waits in vain
// (PMIX-34).
func (g *group) rankExited(number int) {
	g.mu.Lock()
	r := g.byRank[number]
	if r == nil {
		g.mu.Unlock()
		return
	}
	r.exited = true
	waiting := r.waitingGets.takeAll(anyGet)
	g.mu.Unlock()
	finishAll(waiting, message.NotFound)
}

// commitPairs keeps what a rank shows to others, as it is (PMIX-28), and answers those who wait for it.
func (g *group) commitPairs(r *localRank, parts []message.CommitPart) message.Status {
	more, keys := 0, make([][]string, len(parts))
	for i, p := range parts {
		keys[i] = jobinfo.Keys(p.Pairs)
		more += len(p.Pairs) + keyOverhead*len(keys[i])
	}
	g.mu.Lock()
	if r.keptBytes+more > maxRankBytes || g.keptBytes+more > maxGroupBytes {
		g.mu.Unlock()
		g.reportNote(r.number, "PMIx: it commits too much: 16 MiB of a rank, and 1 GiB of a group on a node, may be")
		return message.NoMemory
	}
	g.keptBytes += more
	r.keptBytes += more
	var served []*pendingGet
	for i, p := range parts {
		served = append(served, r.addPairs(p.Scope == message.ScopeLocal, p.Pairs, keys[i])...)
	}
	g.startCommitTimers(r)
	near, far := r.nodePairs.pairs, r.remotePairs.pairs
	g.mu.Unlock()
	for _, w := range served {
		if w.asker != nil {
			w.finish(near, message.Success)
		} else {
			w.finish(far, message.Success)
		}
	}
	return message.Success
}

// addPairs shows pairs with these keys to ranks of the node, or to those elsewhere, and takes out those who have waited
// for one of them. It needs the group's mu.
func (r *localRank) addPairs(near bool, pairs []byte, keys []string) (served []*pendingGet) {
	shown := &r.remotePairs
	if near {
		shown = &r.nodePairs
	}
	shown.addPairs(pairs, keys)
	sees := func(w *pendingGet) bool { return (w.asker != nil) == near }
	for _, key := range keys {
		served = append(served, r.waitingGets.takeByKey(key, sees)...)
	}
	if len(shown.pairs) > 0 {
		served = append(served, r.waitingGets.takeByKey("", sees)...)
	}
	return served
}

// hasKey reports whether a key is among pairs; none stands for any.
func hasKey(pairs []byte, key string) bool {
	if key == "" {
		return len(pairs) > 0
	}
	return jobinfo.HasKey(pairs, key)
}

// takeForFence gives away what a rank has committed for others, and from which byte on that is. A fence of
// the whole group brings what is new since the one before. All others bring everything: which of
// their nodes were in which fences is not known.
func (g *group) takeForFence(r *localRank, whole bool) (from int, data []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	size := len(r.remotePairs.pairs)
	if whole {
		from, r.sentBytes = r.sentBytes, size
	}
	return from, r.remotePairs.pairs[from:size:size]
}

// untakeForFence undoes hand for a fence that was given up.
func (g *group) untakeForFence(r *localRank, from int, whole bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if whole {
		r.sentBytes = min(r.sentBytes, from)
	}
}

// fencePairs returns what fences have brought of a rank of another node.
func (g *group) fencePairs(rank int) []byte {
	if all := g.fenceData.Load(); all != nil {
		return (*all)[rank]
	}
	return nil
}

// loadJobInfo finds out what the group is told of itself, once for all its ranks (PMIX-50).
func (g *group) loadJobInfo(ctx context.Context) (view *jobinfo.View, info []byte, err error) {
	g.jobInfoMu.Lock()
	defer g.jobInfoMu.Unlock()
	if g.view == nil {
		told, err := g.Job(ctx)
		if err != nil {
			return nil, nil, err
		}
		told.Parent = bfrops.Proc{Namespace: g.Parent, Rank: bfrops.Rank(g.ParentRank)}
		g.view = jobinfo.New(told)
		g.info = g.view.Job()
	}
	return g.view, g.info, nil
}
