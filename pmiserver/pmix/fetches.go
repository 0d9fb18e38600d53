package pmix

import (
	"slices"
	"time"

	"remshell/pmiserver/pmix/message"
)

// A FetchRequest asks another node for all data that one of its ranks has committed for other nodes. The
// other node replies when the data contains Key (rule PMIX-62).
type FetchRequest struct {
	Group   string
	Rank    int
	Key     string        // empty: any key
	Timeout time.Duration // in whole seconds; 0: the default of PMIX-33
}

// A Fetcher sends a FetchRequest to the node of the rank through mpiexec. It calls answer once, from any goroutine and
// perhaps before Fetch returns. If the server is closed first, it never calls answer. answer gets the status Success if
// there is data. Otherwise it gets NotFound or NoMemory, or Failed if the job is ending.
type Fetcher interface {
	Fetch(w FetchRequest, answer func(data []byte, s message.Status))
}

// remoteData contains the data of remote ranks that FetchRequests have returned. It does not contain data
// from fences. The group's mu guards it.
type remoteData struct {
	fetched  map[int][]byte        // by rank: its data for other nodes, as last fetched
	inFlight map[fetchKey][]*fetch // fetches without a reply yet
}

type fetchKey struct {
	rank int
	key  string
}

// A fetch is a FetchRequest that has no reply yet. The reply serves all local Gets that need the same rank
// and key.
type fetch struct {
	deadline time.Time // when the other node gives up; zero: the default of PMIX-33
	waiting  getQueue
}

// getFromNode replies with the data of a rank of another node. If this node does not have the data, it requests the
// data from the other node.
func (c *client) getFromNode(q requestInfo, g *group, r *message.Get) {
	rank, timeout := int(r.Rank), getTimeoutOf(r.Options)
	if data := g.knownPairs(rank, r.Key); data != nil {
		c.replyFound(q, g, rank, data, c.readAheadFor(g, rank, r.Key))
		return
	}
	switch {
	case timeout < 0, c.server.Fetcher == nil, g.otherJob:
		c.replyStatus(q, message.NotFound)
		return
	case c.isEnding():
		c.replyStatus(q, message.Failed)
		return
	}
	if w := c.newPendingGet(q, g, r); w != nil {
		g.fetchPairs(fetchKey{rank, r.Key}, w, time.Duration(timeout))
	}
}

// knownPairs returns the data of a remote rank if this node has it and it contains the key. Otherwise it
// returns nil.
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

// fetchPairs makes a Get wait for data from another node. If a suitable request is in progress, the Get joins it.
// Otherwise fetchPairs sends a new request.
func (g *group) fetchPairs(key fetchKey, w *pendingGet, timeout time.Duration) {
	g.mu.Lock()
	f, isNew := g.remote.joinFetch(key, time.Now(), timeout)
	f.waiting.addGet(w)
	if timeout > 0 {
		g.limitWait(&f.waiting, w, timeout)
	}
	g.mu.Unlock()
	if isNew {
		g.server.Fetcher.Fetch(FetchRequest{g.Name, key.rank, key.key, fetchTimeout(timeout)}, func(data []byte, s message.Status) {
			g.server.runTask(func() { g.fetchDone(key, f, data, s) })
		})
	}
}

// fetchTimeout returns how long another node waits for a key before it replies NotFound. timeout is the timeout of the
// Get. The result is twice as long, so that Gets that start a little later can join the same request.
func fetchTimeout(timeout time.Duration) time.Duration { return 2 * timeout }

// joinFetch returns a fetch in progress that does not end before the timeout. If there is none, it creates one, and
// isNew is true.
func (x *remoteData) joinFetch(key fetchKey, now time.Time, timeout time.Duration) (f *fetch, isNew bool) {
	for _, f := range x.inFlight[key] {
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
	x.inFlight[key] = append(x.inFlight[key], f)
	return f, true
}

// fetchDone stores data that another node has sent, and answers the Gets that wait for it.
func (g *group) fetchDone(key fetchKey, f *fetch, data []byte, s message.Status) {
	g.mu.Lock()
	waiting := f.waiting.takeAll(anyGet)
	if rest := slices.DeleteFunc(g.remote.inFlight[key], func(x *fetch) bool { return x == f }); len(rest) > 0 {
		g.remote.inFlight[key] = rest
	} else {
		delete(g.remote.inFlight, key)
	}
	if s == message.Success && !hasKey(data, key.key) {
		s = message.NotFound // the other node replied Success without the key
	}
	if more := len(data) - len(g.remote.fetched[key.rank]); s == message.Success && more > 0 && g.keptBytes+more <= maxGroupBytes {
		g.keptBytes += more
		g.remote.fetched[key.rank] = data
	}
	g.mu.Unlock()
	for _, w := range waiting {
		w.finish(data, s)
	}
}

// ServeFetch handles another node's request for data. It handles the request like a Get of a local rank, but uses the
// data committed for other nodes. It calls answer once, from any goroutine.
func (s *Server) ServeFetch(w FetchRequest, answer func(data []byte, s message.Status)) {
	g := s.groupByName(w.Group)
	if g == nil || g.findRank(int64(w.Rank)) == nil {
		answer(nil, message.NotFound)
		return
	}
	g.awaitCommit(g.findRank(int64(w.Rank)), &pendingGet{key: w.Key, answer: answer}, getTimeout(w.Timeout))
}
