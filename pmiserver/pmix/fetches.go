package pmix

import (
	"slices"
	"time"

	"remshell/pmiserver/pmix/message"
)

// A Want is what a node asks another one for: all that a rank there has committed for others, when
// it has a key (PMIX-62).
type Want struct {
	Group   string
	Rank    int
	Key     string        // empty: any
	Timeout time.Duration // in whole seconds; 0: as PMIX-33 has it if nothing is said
}

// A Fetcher takes a Want to the node of its rank, by mpiexec. It calls answer once, from any
// goroutine and perhaps before it returns, unless the server is closed before: with Success and the
// data, NotFound, TooMuch, or Failed when the job is ending.
type Fetcher interface {
	Fetch(w Want, answer func(data []byte, s message.Status))
}

// far is what a group knows of its ranks on other nodes beside what fences have brought. It is
// guarded by the group's mu.
type far struct {
	kept map[int][]byte      // by rank: all that it has committed for others, as it was fetched last
	open map[farKey][]*fetch // under way
}

type farKey struct {
	rank int
	key  string
}

// A fetch is under way to another node, for all ranks of this one that want the same.
type fetch struct {
	until   time.Time // when it will be given up there; zero: as PMIX-33 has it
	waiting waiters
}

// getRemote answers with what fences have brought of a rank of another node, or fetches it.
func (c *client) getRemote(q envelope, g *group, r *message.Get) {
	rank, most := int(r.Rank), patienceOf(r.Options)
	if data := g.known(rank, r.Key); data != nil {
		c.found(q, g, rank, data, c.ahead(g, rank, r.Key))
		return
	}
	switch {
	case most < 0, c.server.Far == nil:
		c.status(q, message.NotFound)
		return
	case c.ending():
		c.status(q, message.Failed)
		return
	}
	if w := c.pending(q, g, r); w != nil {
		g.fetch(farKey{rank, r.Key}, w, time.Duration(most))
	}
}

// known returns what is here of a rank of another node, if it has a key.
func (g *group) known(rank int, key string) []byte {
	if data := g.brought(rank); hasKey(data, key) {
		return data
	}
	g.mu.Lock()
	data := g.far.kept[rank]
	g.mu.Unlock()
	if hasKey(data, key) {
		return data
	}
	return nil
}

// fetch lets a Get wait for what another node has, with others that want the same.
func (g *group) fetch(of farKey, w *pendingGet, timeout time.Duration) {
	g.mu.Lock()
	f, isNew := g.far.join(of, time.Now(), timeout)
	f.waiting.add(w)
	if timeout > 0 {
		g.limit(&f.waiting, w, timeout)
	}
	g.mu.Unlock()
	if isNew {
		g.server.Far.Fetch(Want{g.Name, of.rank, of.key, roomy(timeout)}, func(data []byte, s message.Status) {
			g.server.task(func() { g.fetched(of, f, data, s) })
		})
	}
}

// roomy is how long a fetch waits at the other node for one who waits so long: those who ask for the
// same a little later are to find it useful.
func roomy(timeout time.Duration) time.Duration { return 2 * timeout }

// join finds a fetch that waits as long as somebody wants to, or begins one.
func (x *far) join(of farKey, now time.Time, timeout time.Duration) (f *fetch, isNew bool) {
	for _, f := range x.open[of] {
		if timeout == 0 && f.until.IsZero() || timeout > 0 && !f.until.Before(now.Add(timeout)) {
			return f, false
		}
	}
	f = new(fetch)
	if timeout > 0 {
		f.until = now.Add(roomy(timeout))
	}
	if x.open == nil {
		x.open, x.kept = make(map[farKey][]*fetch), make(map[int][]byte)
	}
	x.open[of] = append(x.open[of], f)
	return f, true
}

// fetched keeps what has come from another node, and answers those who wait for it.
func (g *group) fetched(of farKey, f *fetch, data []byte, s message.Status) {
	g.mu.Lock()
	waiting := f.waiting.takeAll(anybody)
	if rest := slices.DeleteFunc(g.far.open[of], func(x *fetch) bool { return x == f }); len(rest) > 0 {
		g.far.open[of] = rest
	} else {
		delete(g.far.open, of)
	}
	if s == message.Success && !hasKey(data, of.key) {
		s = message.NotFound // that node has not told the truth
	}
	if more := len(data) - len(g.far.kept[of.rank]); s == message.Success && more > 0 && g.kept+more <= maxKept {
		g.kept += more
		g.far.kept[of.rank] = data
	}
	g.mu.Unlock()
	for _, w := range waiting {
		w.end(data, s)
	}
}

// Supply answers what another node asks for, as if one of this node did, but with what the rank has
// committed for others. It calls answer once, from any goroutine.
func (s *Server) Supply(w Want, answer func(data []byte, s message.Status)) {
	g := s.named(w.Group)
	if g == nil || g.rank(int64(w.Rank)) == nil {
		answer(nil, message.NotFound)
		return
	}
	g.await(g.rank(int64(w.Rank)), &pendingGet{key: w.Key, answer: answer}, gettingLimit(w.Timeout))
}
