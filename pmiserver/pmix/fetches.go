package pmix

import (
	"slices"
	"time"

	"remshell/pmiserver/pmix/message"
)

// A FetchRequest is what a node asks another one for: all that a rank there has committed for others, when
// it has a key (PMIX-62).
type FetchRequest struct {
	Group   string
	Rank    int
	Key     string        // empty: any
	Timeout time.Duration // in whole seconds; 0: as PMIX-33 has it if nothing is said
}

// A Fetcher takes a Want to the node of its rank, by mpiexec. It calls answer once, from any
// goroutine and perhaps before it returns, unless the server is closed before: with Success and the
// data, NotFound, TooMuch, or Failed when the job is ending.
type Fetcher interface {
	Fetch(w FetchRequest, answer func(data []byte, s message.Status))
}

// remoteData is what a group knows of its ranks on other nodes beside what fences have brought. It is
// guarded by the group's mu.
type remoteData struct {
	fetched  map[int][]byte        // by rank: all that it has committed for others, as it was fetched last
	inFlight map[fetchKey][]*fetch // under way
}

type fetchKey struct {
	rank int
	key  string
}

// A fetch is under way to another node, for all ranks of this one that want the same.
type fetch struct {
	deadline time.Time // when it will be given up there; zero: as PMIX-33 has it
	waiting  getQueue
}

// getFromNode answers with what fences have brought of a rank of another node, or fetches it.
func (c *client) getFromNode(q requestInfo, g *group, r *message.Get) {
	rank, most := int(r.Rank), getTimeoutOf(r.Options)
	if data := g.knownPairs(rank, r.Key); data != nil {
		c.replyFound(q, g, rank, data, c.readAheadFor(g, rank, r.Key))
		return
	}
	switch {
	case most < 0, c.server.Fetcher == nil:
		c.replyStatus(q, message.NotFound)
		return
	case c.isEnding():
		c.replyStatus(q, message.Failed)
		return
	}
	if w := c.newPendingGet(q, g, r); w != nil {
		g.fetchPairs(fetchKey{rank, r.Key}, w, time.Duration(most))
	}
}

// knownPairs returns what is here of a rank of another node, if it has a key.
func (g *group) knownPairs(rank int, key string) []byte {
	if data := g.fencePairs(rank); hasKey(data, key) {
		return data
	}
	g.mu.Lock()
	data := g.remote.fetched[rank]
	g.mu.Unlock()
	if hasKey(data, key) {
		return data
	}
	return nil
}

// fetchPairs lets a Get wait for what another node has, with others that want the same.
func (g *group) fetchPairs(of fetchKey, w *pendingGet, timeout time.Duration) {
	g.mu.Lock()
	f, isNew := g.remote.joinFetch(of, time.Now(), timeout)
	f.waiting.addGet(w)
	if timeout > 0 {
		g.limitWait(&f.waiting, w, timeout)
	}
	g.mu.Unlock()
	if isNew {
		g.server.Fetcher.Fetch(FetchRequest{g.Name, of.rank, of.key, fetchTimeout(timeout)}, func(data []byte, s message.Status) {
			g.server.runTask(func() { g.fetchDone(of, f, data, s) })
		})
	}
}

// fetchTimeout is how long a fetch waits at the other node for one who waits so long: those who ask for the
// same a little later are to find it useful.
func fetchTimeout(timeout time.Duration) time.Duration { return 2 * timeout }

// joinFetch finds a fetch that waits as long as somebody wants to, or begins one.
func (x *remoteData) joinFetch(of fetchKey, now time.Time, timeout time.Duration) (f *fetch, isNew bool) {
	for _, f := range x.inFlight[of] {
		if timeout == 0 && f.deadline.IsZero() || timeout > 0 && !f.deadline.Before(now.Add(timeout)) {
			return f, false
		}
	}
	f = new(fetch)
	if timeout > 0 {
		f.deadline = now.Add(fetchTimeout(timeout))
	}
	if x.inFlight == nil {
		x.inFlight, x.fetched = make(map[fetchKey][]*fetch), make(map[int][]byte)
	}
	x.inFlight[of] = append(x.inFlight[of], f)
	return f, true
}

// fetchDone keeps what has come from another node, and answers those who wait for it.
func (g *group) fetchDone(of fetchKey, f *fetch, data []byte, s message.Status) {
	g.mu.Lock()
	waiting := f.waiting.takeAll(anyGet)
	if rest := slices.DeleteFunc(g.remote.inFlight[of], func(x *fetch) bool { return x == f }); len(rest) > 0 {
		g.remote.inFlight[of] = rest
	} else {
		delete(g.remote.inFlight, of)
	}
	if s == message.Success && !hasKey(data, of.key) {
		s = message.NotFound // that node has not told the truth
	}
	if more := len(data) - len(g.remote.fetched[of.rank]); s == message.Success && more > 0 && g.keptBytes+more <= maxGroupBytes {
		g.keptBytes += more
		g.remote.fetched[of.rank] = data
	}
	g.mu.Unlock()
	for _, w := range waiting {
		w.finish(data, s)
	}
}

// ServeFetch answers what another node asks for, as if one of this node did, but with what the rank has
// committed for others. It calls answer once, from any goroutine.
func (s *Server) ServeFetch(w FetchRequest, answer func(data []byte, s message.Status)) {
	g := s.groupByName(w.Group)
	if g == nil || g.findRank(int64(w.Rank)) == nil {
		answer(nil, message.NotFound)
		return
	}
	g.awaitCommit(g.findRank(int64(w.Rank)), &pendingGet{key: w.Key, answer: answer}, getTimeout(w.Timeout))
}
