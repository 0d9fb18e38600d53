package pmiserver

import (
	"bytes"
	"fmt"
)

// A member is what the server knows of a rank of its node.
type member struct {
	state State
	gone  bool // cannot enter the barrier any more, unless it connects again

	// While the rank is in the barrier:
	c     *session // nil: it is not
	reply release
	puts  []byte // what it brings, a blob
	bytes int    // as counted in Server.bytes
}

// A release makes the answer that lets a rank out of the barrier, from what the
// barrier has spread.
type release func(*snapshot) []byte

// always is a release that needs to look at nothing.
func always(answer []byte) release { return func(*snapshot) []byte { return answer } }

// own is what a rank has put and no fence has spread yet. The rank itself sees
// it at once (pmi-wire.md 6.5).
type own struct {
	fresh  map[string][]byte // since it last entered the barrier
	bytes  int               // of fresh
	handed map[string][]byte // what it took into the barrier
	epoch  int               // of that barrier
}

// look finds a key as the rank sees it.
func (c *session) look(key []byte) (value []byte, found bool) {
	snap := c.s.snap.Load()
	if c.own.handed != nil && snap.epoch > c.own.epoch {
		c.own.handed = nil // the snapshot has it, or what replaced it
	}
	if value, found = c.own.fresh[string(key)]; found {
		return value, true
	}
	if value, found = c.own.handed[string(key)]; found {
		return value, true
	}
	return snap.get(key)
}

// keep stores a pair until the next barrier. It reports false if there is no room
// for it: a group has so many bytes, and a rank so many keys between two barriers.
func (c *session) keep(key, value []byte) bool {
	old, replaced := c.own.fresh[string(key)]
	more := len(key) + len(value) + pairCost
	if replaced {
		more = len(value) - len(old)
	}
	full := c.s.bytes.Load()+int64(c.s.snap.Load().cost()+more) > maxStore
	if full || !replaced && len(c.own.fresh) >= maxKeys {
		return false
	}
	if c.own.fresh == nil {
		c.own.fresh = make(map[string][]byte)
	}
	c.own.fresh[string(key)] = bytes.Clone(value)
	c.own.bytes += more
	c.s.bytes.Add(int64(more))
	return true
}

// enter takes a rank into the barrier; reply lets it out. The last one of the node
// sets off the fence.
func (c *session) enter(reply release) {
	s := c.s
	puts := appendPairs(nil, c.own.fresh)
	s.mu.Lock()
	m := &s.members[c.local]
	if m.c != nil {
		s.mu.Unlock()
		s.note(c.rank, "entered a barrier twice")
		return
	}
	m.c, m.reply, m.puts, m.bytes = c, reply, puts, c.own.bytes
	c.own = own{handed: c.own.fresh, epoch: s.snap.Load().epoch}
	s.waiting++
	full := s.waiting == len(s.members)
	stuck := s.stuck()
	s.mu.Unlock()
	s.report(stuck)
	if full && stuck == nil {
		s.meet(c)
	}
}

// meet exchanges what the ranks of this node have brought, and lets them go. It
// must not hold up the session, whose rank may ask or abort meanwhile.
func (s *Server) meet(c *session) {
	mine := s.brought()
	if s.fence == nil {
		s.finish([][]byte{mine})
		return
	}
	id := fenceID(s.info.Name, s.snap.Load().epoch)
	c.late.Go(func() {
		all, err := s.fence.Fence(c.ctx, id, mine)
		switch {
		case c.ctx.Err() != nil: // the rank has left the barrier: leave reports it
		case err != nil:
			s.report(fmt.Errorf("barrier: %w", err))
		default:
			s.finish(all)
		}
	})
}

// brought joins the blobs of the ranks, in local order.
func (s *Server) brought() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	for i := range s.members {
		size += len(s.members[i].puts)
	}
	blob := make([]byte, 0, size)
	for i := range s.members {
		blob = append(blob, s.members[i].puts...)
		s.members[i].puts = nil
	}
	return blob
}

// finish ends a barrier: first all can see what was put, then all are released
// (pmi-wire.md 6.1).
func (s *Server) finish(all [][]byte) {
	next, err := s.snap.Load().next(all)
	if err != nil {
		s.report(err)
		return
	}
	for _, m := range s.open(next) {
		m.c.tell(m.reply(next))
	}
}

// open makes the snapshot visible, empties the barrier and returns who was in
// it: nobody, if the job is at its end.
func (s *Server) open(next *snapshot) []member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen.Load() || s.broken {
		return nil
	}
	s.snap.Store(next)
	released := make([]member, len(s.members))
	copy(released, s.members)
	for i := range s.members {
		m := &s.members[i]
		s.bytes.Add(-int64(m.bytes))
		m.c, m.reply, m.bytes = nil, nil, 0
	}
	s.waiting = 0
	return released
}

// stuck returns an error if ranks wait for others that have gone, else nil. A
// rank of another node that has gone is the hub's affair. It needs s.mu.
func (s *Server) stuck() error {
	if s.waiting == 0 {
		return nil
	}
	waiting := s.list(func(m *member) bool { return m.c != nil && !m.gone })
	gone := s.list(func(m *member) bool { return m.gone })
	if len(waiting) == 0 || len(gone) == 0 {
		return nil
	}
	return &StuckError{Waiting: waiting, Gone: gone}
}

// report tells once that no barrier will be released any more.
func (s *Server) report(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	first := !s.broken && !s.frozen.Load()
	s.broken = true
	s.mu.Unlock()
	if first && s.Broken != nil {
		s.Broken(err)
	}
}
