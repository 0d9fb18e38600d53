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

// A group holds what this node knows about the ranks of one namespace: its local ranks, and the data that local and
// remote ranks have committed.
type group struct {
	Group
	server *Server
	byRank map[int]*localRank
	ending atomic.Bool // its ranks must no longer wait for other processes

	otherJob    bool // it belongs to another job, and all its data is here
	connections int  // number of connects with it that no disconnect has undone, if otherJob; server.mu guards it

	// fenceData is the data that fences have brought from ranks of other nodes, by rank, as committed. The
	// slice is never changed, only replaced as a whole. It is nil until a fence brings data.
	fenceData atomic.Pointer[[][]byte]

	jobInfoMu sync.Mutex    // guards view and info; held during the request to mpiexec
	view      *jobinfo.View // nil until loaded
	info      []byte        // job info that replies to a Req: encoded key-value pairs

	mu        sync.Mutex // guards the localRanks and the fields below
	keptBytes int        // bytes committed by local ranks plus bytes fetched from other nodes
	remote    remoteData
}

// A localRank is a rank on this node.
type localRank struct {
	number  int
	state   State
	clients []*client
	exited  bool // its process has ended

	nodePairs, remotePairs pairSet // committed for ranks of this node, and of other nodes
	hasCommitted           bool
	keptBytes              int // bytes that both count for
	sentBytes              int // bytes of remotePairs that fences of the whole group have taken

	waitingGets  getQueue // Gets that wait for this rank's data
	awaitedNames []string // published names that its clients wait for

	madeGroups  map[string][]bfrops.Proc // members of the PMIx groups that it has constructed, by group ID
	madeMembers int                      // total number of members in madeGroups

	noteCount    atomic.Int32 // notes reported about the rank
	nameRequests atomic.Int32 // names in requests of its clients that have no reply yet
	eventCodes   atomic.Int32 // event codes that its clients have registered
	notices      atomic.Int32 // events of its clients that mpiexec has not confirmed yet
	queuedBytes  atomic.Int64 // bytes queued for its clients
	gets         atomic.Int32 // Gets of its clients that have no reply yet
	spawns       atomic.Int32 // spawns that have no reply yet
}

// A pairSet contains the data that a rank has committed: encoded key-value pairs, and the set of their keys. Pairs are
// only added, never removed.
type pairSet struct {
	pairs []byte
	keys  map[string]bool
}

// keyOverhead is the number of bytes that are counted for each key, in addition to its encoded pair. This accounts for
// the key's entry in the map.
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

// hasKey reports whether the set has a key, in constant time. The empty key stands for any key.
func (s *pairSet) hasKey(key string) bool { return s.keys[key] || key == "" && len(s.pairs) > 0 }

func newGroup(s *Server, g Group) *group {
	added := &group{Group: g, server: s, byRank: make(map[int]*localRank, len(g.Ranks))}
	for _, number := range g.Ranks {
		added.byRank[number] = &localRank{number: number}
	}
	return added
}

// findRank returns the rank with the given number in the group. It returns nil if that rank is not on this node.
func (g *group) findRank(number int64) *localRank { return g.byRank[int(number)] }

// addClient adds a client to its rank. It returns false if the rank has too many connections.
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

// isEnding reports whether ranks of the group must no longer wait for other processes (rule PMIX-64).
func (g *group) isEnding() bool { return g.server.ending.Load() || g.ending.Load() }

func (g *group) removeClient(c *client) {
	c.rank.eventCodes.Add(-int32(c.eventCodes.clear()))
	g.mu.Lock()
	defer g.mu.Unlock()
	c.rank.clients = slices.DeleteFunc(c.rank.clients, func(other *client) bool { return other == c })
}

// reportConnEnd reports that a client has sent invalid messages, or that its connection has ended unexpectedly. An end
// is expected if the client has finalized, or if the same rank has another open connection (pmix-wire.md 10).
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

func (g *group) setState(r *localRank, state State) {
	g.mu.Lock()
	r.state = state
	var waiting []*pendingGet
	if state == Finalized {
		waiting = r.waitingGets.takeAll(anyGet)
	}
	g.mu.Unlock()
	finishAll(waiting, message.NotFound) // (PMIX-34)
	if g.StateChanged != nil {
		g.StateChanged(r.number, state)
	}
}

// maxNotes is the maximum number of notes about one rank that are reported (rule TRUST-24).
const maxNotes = 100

func (g *group) reportNote(rank int, text string) { g.reportLimited(g.Note, rank, text) }

// warn tells the user why a call of a rank fails.
func (g *group) warn(rank int, text string) { g.reportLimited(g.Warn, rank, text) }

// reportLimited calls report, unless report is nil or there have already been too many notes about the rank.
func (g *group) reportLimited(report func(rank int, text string), rank int, text string) {
	count := &g.byRank[rank].noteCount
	if report == nil || count.Load() >= maxNotes {
		return
	}
	switch n := count.Add(1); {
	case n < maxNotes:
		report(rank, text)
	case n == maxNotes:
		report(rank, text+"; further messages about PMIx from this rank are not shown")
	}
}

// rankExited records that the process of a rank has ended, and answers the Gets that wait for its keys (rule
// PMIX-34).
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

// commitPairs stores data that a rank commits, without decoding it (rule PMIX-28). It answers the Gets that wait for
// this data.
func (g *group) commitPairs(r *localRank, parts []message.CommitPart) message.Status {
	more, keys := 0, make([][]string, len(parts))
	for i, p := range parts {
		keys[i] = jobinfo.Keys(p.Pairs)
		more += len(p.Pairs) + keyOverhead*len(keys[i])
	}
	g.mu.Lock()
	if r.keptBytes+more > maxRankBytes || g.keptBytes+more > maxGroupBytes {
		g.mu.Unlock()
		g.reportNote(r.number, "PMIx: refused to store more keys: the limit is 16 MiB for a rank, and 1 GiB for all ranks of a group on a host")
		return message.NoMemory
	}
	g.keptBytes += more
	r.keptBytes += more
	var served []*pendingGet
	for i, p := range parts {
		served = append(served, r.addPairs(p.Scope == message.ScopeLocal, p.Pairs, keys[i])...)
	}
	g.startCommitTimers(r)
	nodeData, remoteData := r.nodePairs.pairs, r.remotePairs.pairs
	g.mu.Unlock()
	for _, w := range served {
		if w.asker != nil {
			w.finish(nodeData, message.Success)
		} else {
			w.finish(remoteData, message.Success)
		}
	}
	return message.Success
}

// addPairs adds pairs with the given keys. local is true if the pairs are for ranks on this node, and false if they are
// for other nodes. addPairs removes and returns the Gets that have waited for one of the keys. The caller holds the
// group's mu.
func (r *localRank) addPairs(local bool, pairs []byte, keys []string) (served []*pendingGet) {
	set := &r.remotePairs
	if local {
		set = &r.nodePairs
	}
	set.addPairs(pairs, keys)
	maySee := func(w *pendingGet) bool { return (w.asker != nil) == local }
	for _, key := range keys {
		served = append(served, r.waitingGets.takeByKey(key, maySee)...)
	}
	if len(set.pairs) > 0 {
		served = append(served, r.waitingGets.takeByKey("", maySee)...)
	}
	return served
}

// hasKey reports whether encoded pairs contain a key. The empty key stands for any key.
func hasKey(pairs []byte, key string) bool {
	if key == "" {
		return len(pairs) > 0
	}
	return jobinfo.HasKey(pairs, key)
}

// takeForFence returns the data that a rank has committed for other nodes, without the first offset bytes. For a fence
// of the whole group, these are the bytes that earlier fences of the whole group have sent. For other fences offset is
// 0, because it is not known which nodes already have which bytes.
func (g *group) takeForFence(r *localRank, wholeGroup bool) (offset int, data []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	size := len(r.remotePairs.pairs)
	if wholeGroup {
		offset, r.sentBytes = r.sentBytes, size
	}
	return offset, r.remotePairs.pairs[offset:size:size]
}

// untakeForFence undoes takeForFence for a fence that was given up.
func (g *group) untakeForFence(r *localRank, offset int, wholeGroup bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wholeGroup {
		r.sentBytes = min(r.sentBytes, offset)
	}
}

// fencePairs returns the data of a remote rank that was received in fences, or nil.
func (g *group) fencePairs(rank int) []byte {
	if all := g.fenceData.Load(); all != nil {
		return (*all)[rank]
	}
	return nil
}

// loadJobInfo returns the job info of the group, as a View and in encoded form. The first call asks mpiexec for it
// (rule PMIX-50).
func (g *group) loadJobInfo(ctx context.Context) (decoded *jobinfo.View, info []byte, err error) {
	g.jobInfoMu.Lock()
	defer g.jobInfoMu.Unlock()
	if g.view == nil {
		job, err := g.Job(ctx)
		if err != nil {
			return nil, nil, err
		}
		job.Parent = bfrops.Proc{Namespace: g.Parent, Rank: bfrops.Rank(g.ParentRank)}
		g.view = jobinfo.New(job)
		g.info = g.view.Job()
	}
	return g.view, g.info, nil
}
