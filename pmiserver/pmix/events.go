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
	Group   string
	Rank    int
	Code    int32
	Targets fence.Members // empty: everybody in the job
	Infos   []byte        // as they stand in messages
}

// A Notifier takes events to other nodes, by mpiexec, those of a rank in their order. It calls told once, from any
// goroutine, when mpiexec has passed it on, or will not.
type Notifier interface {
	Notify(e Event, told func(s message.Status))
}

// Bounds of events (pmix-wire.md 11).
const (
	maxCodes        = 1 << 10  // that a rank has registered
	maxNotices      = 1 << 10  // of a rank that mpiexec has not yet heard
	maxInfos        = 64 << 10 // bytes of the infos of an event
	maxEventBacklog = 1 << 20  // bytes that wait for a client before it misses events
)

// A codeSet is the codes of events that a client wants to hear of.
type codeSet struct {
	mu    sync.Mutex
	codes map[int32]bool
}

func (r *codeSet) has(code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[code]
}

// add takes a code in, and reports whether it is new.
func (r *codeSet) add(code int32) bool {
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
func (r *codeSet) remove(code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.codes[code]
	delete(r.codes, code)
	return known
}

// clear empties the register of a client that is gone, and returns how many there were.
func (r *codeSet) clear() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.codes)
	r.codes = nil
	return n
}

// registerEvents notes which events a client wants to hear of. A handler for all that nobody else hears of hears
// of what its own library says: others' events go to who has named their code.
func (c *client) registerEvents(codes []int32) message.Status {
	for _, code := range codes {
		if !c.eventCodes.add(code) {
			continue
		}
		if c.rank.eventCodes.Add(1) > maxCodes {
			c.eventCodes.remove(code)
			c.rank.eventCodes.Add(-1)
			c.note("PMIx: it registers too many events")
			return message.NoMemory
		}
	}
	return message.Success
}

func (c *client) deregisterEvents(codes []int32) {
	for _, code := range codes {
		if c.eventCodes.remove(code) {
			c.rank.eventCodes.Add(-1)
		}
	}
}

// handleNotify tells others of an event: those here at once, and those on other nodes by mpiexec.
func (c *client) handleNotify(q requestInfo, r *message.Notify) {
	e := Event{Group: c.group.Name, Rank: c.rank.number, Code: int32(r.Event), Infos: bfrops.AppendInfos(nil, r.Infos)}
	members, status := c.eventTargets(r)
	switch {
	case r.Event == message.ModelDeclared, r.Range.IsForNobody():
		c.replyStatus(q, message.Success)
		return
	case status != message.Success:
	case len(e.Infos) > maxInfos:
		status = message.NoMemory
	case c.isEnding():
		status = message.Failed
	}
	if status != message.Success {
		c.replyStatus(q, status)
		return
	}
	e.Targets = members
	if r.Range == message.OnNode || c.server.OtherNodes == nil || c.server.Notifier == nil {
		c.server.DeliverEvent(e)
		c.replyStatus(q, message.Success)
		return
	}
	if c.rank.notices.Add(1) > maxNotices {
		c.rank.notices.Add(-1)
		c.replyStatus(q, message.NoMemory)
		return
	}
	c.server.DeliverEvent(e)
	c.server.Notifier.Notify(e, func(s message.Status) {
		c.rank.notices.Add(-1)
		c.replyStatus(q, s)
	})
}

// eventTargets are who may hear of an event, by its range.
func (c *client) eventTargets(r *message.Notify) (fence.Members, message.Status) {
	switch r.Range {
	case message.InNamespace:
		return fence.WholeGroup(c.group.Name), message.Success
	case message.ListedProcs:
		procs, given := r.Targets()
		members, err := newProcSet(procs, c.server.groupSize)
		if !given || err != nil {
			return "", message.BadParameter
		}
		return members.fenceMembers(), message.Success
	}
	return "", message.Success
}

// DeliverEvent tells the clients of this node of an event: those that have registered its code, are among its
// targets, and are not of the rank that it comes from. One that is far behind misses it.
func (s *Server) DeliverEvent(e Event) {
	isTarget, err := e.Targets.Matcher()
	if err != nil || bfrops.IsMalformedInfos(e.Infos) {
		return // of another node: clients are told nothing that they cannot read
	}
	var notice []byte
	for _, c := range s.eventListeners(e.Code) {
		if c.group.Name == e.Group && c.rank.number == e.Rank || !isTarget(c.group.Name, c.rank.number) {
			continue
		}
		if notice == nil {
			notice = message.NewEvent(e.Code, bfrops.Proc{Namespace: s.namespaceOf(e.Group), Rank: bfrops.Rank(e.Rank)}, e.Infos)
		}
		if c.out.enqueueUnlessBehind(maxEventBacklog, notice) {
			c.traceReply("EVENT", message.Status(e.Code).String())
		} else {
			c.note("PMIx: it misses an event, since it does not read")
		}
	}
}

// eventListeners are the clients that have registered a code.
func (s *Server) eventListeners(code int32) (all []*client) {
	s.mu.Lock()
	groups := slices.Clone(s.groups)
	s.mu.Unlock()
	for _, g := range groups {
		g.mu.Lock()
		for _, r := range g.byRank {
			for _, c := range r.clients {
				if c.eventCodes.has(code) {
					all = append(all, c)
				}
			}
		}
		g.mu.Unlock()
	}
	return all
}

// namespaceOf is the namespace of a group, which may have no rank here.
func (s *Server) namespaceOf(group string) string {
	if g := s.groupByName(group); g != nil {
		return g.Namespace
	}
	return s.GroupFinder.Namespace(group)
}
