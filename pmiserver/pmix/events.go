package pmix

import (
	"slices"
	"sync"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// An Event is a PMIx event that a rank sends. The targets that have registered the event's code receive
// it (pmix-wire.md 6.7). The server itself sends no events (rule PMIX-38).
type Event struct {
	Group   string
	Rank    int
	Code    int32
	Targets fence.Members // empty: all ranks of the job
	Infos   []byte        // encoded as in messages
}

// A Notifier sends events to other nodes through mpiexec. It keeps the order of each rank's events. When mpiexec has
// forwarded or rejected an event, the Notifier calls done once, from any goroutine.
type Notifier interface {
	Notify(e Event, done func(s message.Status))
}

// These are the limits of events (pmix-wire.md 11).
const (
	maxCodes        = 1 << 10  // codes that a rank may register
	maxNotices      = 1 << 10  // events of a rank that mpiexec has not confirmed
	maxInfos        = 64 << 10 // bytes of the infos of an event
	maxEventBacklog = 1 << 20  // bytes queued for a client above which it misses events
)

// A codeSet contains the event codes that a client has registered.
type codeSet struct {
	mu    sync.Mutex
	codes map[int32]bool
}

func (r *codeSet) has(code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[code]
}

// add adds an event code to the set, and reports whether the code is new.
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

// remove removes an event code, and reports whether the set contained it.
func (r *codeSet) remove(code int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.codes[code]
	delete(r.codes, code)
	return known
}

// clear removes all event codes, and returns how many there were.
func (r *codeSet) clear() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.codes)
	r.codes = nil
	return n
}

// registerEvents registers event codes for a client. A handler that is registered without codes receives only events of
// the client's own library. An event of another rank is sent only to clients that have registered its code.
func (c *client) registerEvents(codes []int32) message.Status {
	for _, code := range codes {
		if !c.eventCodes.add(code) {
			continue
		}
		if c.rank.eventCodes.Add(1) > maxCodes {
			c.eventCodes.remove(code)
			c.rank.eventCodes.Add(-1)
			c.note("PMIx: the rank registers for too many events")
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

// handleNotify delivers a client's event to the clients of this node, and sends it to other nodes
// through mpiexec.
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

// eventTargets returns the processes to which an event may be delivered, according to its range. An empty
// result stands for all ranks of the job.
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

// DeliverEvent sends an event to the clients of this node that have registered the event's code and are among its
// targets. The rank that has sent the event does not receive it, and neither does a client with more than
// maxEventBacklog queued bytes.
func (s *Server) DeliverEvent(e Event) {
	isTarget, err := e.Targets.Matcher()
	if err != nil || bfrops.IsMalformedInfos(e.Infos) {
		return // from another node; clients could not decode it
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
			c.note("PMIx: an event is lost, because the rank does not read from its PMIx connection")
		}
	}
}

// eventListeners returns the clients that have registered an event code.
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

// namespaceOf returns the namespace of a group, which may have no ranks on this node.
func (s *Server) namespaceOf(group string) string {
	if g := s.groupByName(group); g != nil {
		return g.Namespace
	}
	return s.GroupFinder.Namespace(group)
}
