package pmix

import (
	"slices"
	"sync"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// An Event is what a rank tells others: those among its targets that have registered its code (pmix-wire.md
// 6.7). We have none of our own (PMIX-38).
type Event struct {
	Group string
	Rank  int
	Code  int32
	To    fence.Members // empty: everybody in the job
	Infos []byte        // as they stand in messages
}

// A Notifier takes events to other nodes, by mpiexec, those of a rank in their order. It calls told once, from any
// goroutine, when mpiexec has passed it on, or will not.
type Notifier interface {
	Notify(e Event, told func(s message.Status))
}

// Bounds of events (pmix-wire.md 11).
const (
	maxCodes   = 1 << 10  // that a rank has registered
	maxNotices = 1 << 10  // of a rank that mpiexec has not yet heard
	maxInfos   = 64 << 10 // bytes of the infos of an event
	maxBehind  = 1 << 20  // bytes that wait for a client before it misses events
)

// A register is the codes of events that a client wants to hear of.
type register struct {
	mu    sync.Mutex
	codes map[int32]bool
}

func (r *register) has(code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[code]
}

// add takes a code in, and reports whether it is new.
func (r *register) add(code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.codes == nil {
		r.codes = make(map[int32]bool)
	}
	known := r.codes[code]
	r.codes[code] = true
	return !known
}

// remove takes a code out, and reports whether it was in.
func (r *register) remove(code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.codes[code]
	delete(r.codes, code)
	return known
}

// clear empties the register of a client that is gone, and returns how many there were.
func (r *register) clear() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.codes)
	r.codes = nil
	return n
}

// register notes which events a client wants to hear of. A handler for all that nobody else hears of hears
// of what its own library says: others' events go to who has named their code.
func (c *client) register(codes []int32) message.Status {
	for _, code := range codes {
		if !c.events.add(code) {
			continue
		}
		if c.rank.codes.Add(1) > maxCodes {
			c.events.remove(code)
			c.rank.codes.Add(-1)
			c.note("PMIx: it registers too many events")
			return message.TooMuch
		}
	}
	return message.Success
}

func (c *client) deregister(codes []int32) {
	for _, code := range codes {
		if c.events.remove(code) {
			c.rank.codes.Add(-1)
		}
	}
}

// notify tells others of an event: those here at once, and those on other nodes by mpiexec.
func (c *client) notify(q envelope, r *message.Notify) {
	e := Event{Group: c.group.Name, Rank: c.rank.number, Code: int32(r.Event), Infos: bfrops.AppendInfos(nil, r.Infos)}
	members, status := c.targets(r)
	switch {
	case r.Event == message.ModelDeclared, r.Range.IsForNobody():
		c.status(q, message.Success)
		return
	case status != message.Success:
	case len(e.Infos) > maxInfos:
		status = message.TooMuch
	case c.ending():
		status = message.Failed
	}
	if status != message.Success {
		c.status(q, status)
		return
	}
	e.To = members
	if r.Range == message.OnNode || c.server.Others == nil || c.server.Notifier == nil {
		c.server.Tell(e)
		c.status(q, message.Success)
		return
	}
	if c.rank.notices.Add(1) > maxNotices {
		c.rank.notices.Add(-1)
		c.status(q, message.TooMuch)
		return
	}
	c.server.Tell(e)
	c.server.Notifier.Notify(e, func(s message.Status) {
		c.rank.notices.Add(-1)
		c.status(q, s)
	})
}

// targets are who may hear of an event, by its range.
func (c *client) targets(r *message.Notify) (fence.Members, message.Status) {
	switch r.Range {
	case message.InNamespace:
		return fence.Whole(c.group.Name), message.Success
	case message.Listed:
		procs, given := r.Targets()
		members, err := newSet(procs, c.server.sizes)
		if !given || err != nil {
			return "", message.BadParameter
		}
		return members.members(), message.Success
	}
	return "", message.Success
}

// Tell tells the clients of this node of an event: those that have registered its code, are among its
// targets, and are not of the rank that it comes from. One that is far behind misses it.
func (s *Server) Tell(e Event) {
	isTarget, err := e.To.Finder()
	if err != nil || bfrops.Malformed(e.Infos) {
		return // of another node: clients are told nothing that they cannot read
	}
	var notice []byte
	for _, c := range s.listeners(e.Code) {
		if c.group.Name == e.Group && c.rank.number == e.Rank || !isTarget(c.group.Name, c.rank.number) {
			continue
		}
		if notice == nil {
			notice = message.NewEvent(e.Code, bfrops.Proc{Namespace: s.spaceOf(e.Group), Rank: bfrops.Rank(e.Rank)}, e.Infos)
		}
		if c.out.putUnless(maxBehind, notice) {
			c.traceReply("EVENT", message.Status(e.Code).String())
		} else {
			c.note("PMIx: it misses an event, since it does not read")
		}
	}
}

// listeners are the clients that have registered a code.
func (s *Server) listeners(code int32) (all []*client) {
	s.mu.Lock()
	groups := slices.Clone(s.groups)
	s.mu.Unlock()
	for _, g := range groups {
		g.mu.Lock()
		for _, r := range g.byRank {
			for _, c := range r.clients {
				if c.events.has(code) {
					all = append(all, c)
				}
			}
		}
		g.mu.Unlock()
	}
	return all
}

// spaceOf is the namespace of a group, which may have no rank here.
func (s *Server) spaceOf(group string) string {
	if g := s.named(group); g != nil {
		return g.Namespace
	}
	return s.Elsewhere.Space(group)
}
