package pmix

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/message"
)

// A meetingKey tells meetings apart.
type meetingKey struct {
	kind    fence.Kind
	members fence.Members
}

// A meeting is where the processes of a set that are on this node meet, for one fence after the
// other. It is kept when it is over, since it counts how often they have met.
type meeting struct {
	server *Server
	set    set
	local  fence.Local

	mu      sync.Mutex  // guards what follows
	members []*attendee // in the order of local.Ranks
	inside  int         // of members, those that wait; changed with server.mu held, too
	over    bool        // nobody comes any more: one of its groups is over, or it is spent
	spent   bool        // who comes later finds another one; these two belong to server.mu

	context int // number of the group that was made here last; read by those who leave
}

// An attendee is a process of a meeting on this node.
type attendee struct {
	group *group
	rank  *localRank
	calls []fenceCall // the first one is in the fence, the others come after it
	timer *time.Timer // of the first one; nil: it has no limit
	from  int         // what a fence of the whole group has taken before it
}

// A fenceCall is what a client asked a meeting for.
type fenceCall struct {
	client   *client
	question envelope
	collect  bool
	numbered bool          // a group that is made is to have a number
	unmade   string        // the group that is unmade
	timeout  time.Duration // how long it waits in the fence; 0: without an end (PMIX-31)
}

// maxCalls is how many fences of one set a rank may have begun.
const maxCalls = 1 << 10

// sizes finds the group of a namespace, as newSet wants it.
func (s *Server) sizes(namespace string) (group string, size int, known bool) {
	g := s.locate(namespace)
	if g == nil {
		return "", 0, false
	}
	return g.Name, g.Size, true
}

// meetingOf returns the meeting of a set; nil: there are too many.
func (s *Server) meetingOf(kind fence.Kind, members set) *meeting {
	key := meetingKey{kind, members.members()}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.meetings[key]
	switch {
	case m != nil:
	case len(s.meetings) >= maxOfSets:
		return nil
	default:
		m = s.newMeeting(key, members)
		s.meetings[key] = m
	}
	return m
}

// newMeeting needs s.mu.
func (s *Server) newMeeting(key meetingKey, members set) *meeting {
	m := &meeting{server: s, set: members}
	m.local.Kind, m.local.Members = key.kind, key.members
	for _, g := range s.groups {
		for _, number := range g.Ranks {
			if members.has(g.Name, number) {
				m.members = append(m.members, &attendee{group: g, rank: g.byRank[number]})
				m.local.Ranks, m.local.Groups = append(m.local.Ranks, number), append(m.local.Groups, g.Name)
			}
		}
	}
	if len(m.members) < members.count() || key.kind.Base() == fence.Construct { // whose number mpiexec has
		m.local.Others = s.Others
	}
	m.local.Open, m.local.Broken, m.local.Lenient = m.open, s.broken, s.Lenient
	m.local.Missed(s.late[key])
	delete(s.late, key)
	for i := range m.members {
		if m.members[i].isGone() {
			m.local.Leave(i)
		}
	}
	return m
}

func (s *Server) broken(err error) {
	if s.Broken != nil && !s.ending.Load() {
		s.Broken(err)
	}
}

// meetingsOf lists those of some sets.
func (s *Server) meetingsOf(these func(set) bool) (all []*meeting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.meetings {
		if these(m.set) {
			all = append(all, m)
		}
	}
	return all
}

func (m *attendee) isGone() bool { return m.group.isGone(m.rank) }

// index finds a rank among the members.
func (m *meeting) index(g *group, rank int) int {
	return slices.IndexFunc(m.members, func(x *attendee) bool { return x.group == g && x.rank.number == rank })
}

// leave says that a rank will not come any more.
func (m *meeting) leave(g *group, rank int) {
	if i := m.index(g, rank); i >= 0 {
		m.local.Leave(i)
	}
}

// come takes a client to the meeting of a set.
func (s *Server) come(kind fence.Kind, members set, call fenceCall) (entered bool) {
	for {
		m := s.meetingOf(kind, members)
		switch {
		case m == nil:
			call.client.note("PMIx: too many fences at once")
			return false
		case m.enter(call):
			return true
		case !s.isSpent(m):
			return false
		}
	}
}

func (s *Server) isSpent(m *meeting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.spent
}

// enter takes a rank to the fence, now or when it comes out of those that it has begun before. It
// is false when there are too many, or when the group is over: what a rank has left may speak on.
func (m *meeting) enter(call fenceCall) bool {
	i := m.index(call.client.group, call.client.rank.number)
	if i < 0 {
		return false
	}
	m.mu.Lock()
	x := m.members[i]
	if len(x.calls) >= maxCalls || len(x.calls) == 0 && !m.server.beginMeeting(m) {
		m.mu.Unlock()
		return false
	}
	x.calls = append(x.calls, call)
	first := len(x.calls) == 1
	m.mu.Unlock()
	if first {
		m.meet(i)
	}
	return true
}

// beginMeeting counts one that comes to a meeting; false: too many meet already. It needs m.mu.
func (s *Server) beginMeeting(m *meeting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.over {
		return false
	}
	if m.inside == 0 {
		if s.meeting >= maxMeetings {
			return false
		}
		s.meeting++
	}
	m.inside++
	return true
}

// endMeeting counts one that has left. It needs m.mu.
func (s *Server) endMeeting(m *meeting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.inside--; m.inside > 0 || m.over {
		return
	}
	s.meeting--
	if key := (meetingKey{m.local.Kind, m.local.Members}); key.kind != key.kind.Base() && m.local.Fresh() {
		m.over, m.spent = true, true // a program may make groups for days
		delete(s.meetings, key)
	}
}

// forgetMeetings drops those of a group that is over, and returns them. It needs s.mu.
func (s *Server) forgetMeetings(group string) (gone []*meeting) {
	maps.DeleteFunc(s.late, func(key meetingKey, _ int) bool { return slices.Contains(key.members.Groups(), group) })
	for key, m := range s.meetings {
		if !m.set.names(group) {
			continue
		}
		m.over = true
		delete(s.meetings, key)
		if m.inside > 0 {
			s.meeting--
		}
		gone = append(gone, m)
	}
	return gone
}

// stopTimers lets nobody give up a fence of a meeting that is over.
func (m *meeting) stopTimers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.members {
		if x.timer != nil {
			x.timer.Stop()
		}
	}
}

// GiveUp ends a fence that another node has given up; false: none of this one has ever come to those
// members, and who does is told then.
func (s *Server) GiveUp(id fence.ID) (met bool) {
	key := meetingKey{id.Kind, id.Members}
	s.mu.Lock()
	m := s.meetings[key]
	if m == nil && len(s.late) < maxOfSets {
		s.late[key] = id.Number + 1
	}
	s.mu.Unlock()
	if m != nil {
		m.local.GiveUp(id.Number)
	}
	return m != nil
}

// meet takes a member into the fence, with what it has committed if it wants that spread.
func (m *meeting) meet(i int) {
	m.mu.Lock()
	x := m.members[i]
	now := x.calls[0]
	if now.timeout > 0 {
		number := m.local.Next(i)
		x.timer = time.AfterFunc(now.timeout, func() { m.server.task(func() { m.local.GiveUp(number) }) })
	}
	m.mu.Unlock()
	if m.local.Kind == fence.Collective && m.set.isWhole() && now.timeout == 0 && x.group.Fencing != nil {
		x.group.Fencing(x.rank.number)
	}
	var brings []byte
	if now.collect && m.local.Others != nil {
		brings = m.appendRecord(nil, x)
	}
	m.local.Enter(m.server.ctx, &m.server.tasks, i, brings, func(late bool) { m.release(i, late) })
}

// release answers a member that comes out of the fence, and takes it into the next one. What it has
// brought to one that was given up it brings again.
func (m *meeting) release(i int, late bool) {
	m.mu.Lock()
	x := m.members[i]
	done := x.calls[0]
	x.calls = x.calls[1:]
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	if late && done.collect && m.local.Others != nil {
		x.group.takeBack(x.rank, x.from, m.set.isWhole())
	}
	more := len(x.calls) > 0
	if !more {
		x.calls = nil
		m.server.endMeeting(m)
	}
	m.mu.Unlock()
	if late {
		done.client.status(done.question, message.TimedOut)
	} else {
		m.answer(done)
	}
	if more {
		m.meet(i)
	}
}

// answer tells a client that all are there; who are connected learn of each other's groups, of
// which mpiexec may have to be asked (PMIX-45).
func (m *meeting) answer(done fenceCall) {
	switch m.local.Kind.Base() {
	case fence.Connect:
		m.server.tasks.Go(func() { m.introduce(done) })
	case fence.Construct:
		m.answerGroup(done)
	case fence.Destruct:
		done.client.rank.forget(done.client.group, done.unmade)
		done.client.status(done.question, message.Success)
	default:
		done.client.status(done.question, message.Success)
	}
}

func (m *meeting) introduce(done fenceCall) {
	reply := message.AppendStatus(message.NewReply(done.question.tag), message.Success)
	for _, part := range m.set {
		g := m.server.named(part.group)
		if g == nil || g == done.client.group {
			continue
		}
		_, info, err := g.know(m.server.ctx)
		if err != nil {
			done.client.status(done.question, message.Failed)
			return
		}
		reply = message.AppendConnected(reply, g.Namespace, info)
	}
	done.client.reply(done.question, "connected", reply)
}

/*
What a rank brings to a fence that collects:

	record = uvarint(group) uvarint(rank) uvarint(from) uvarint(len bytes) bytes

group is the number of its group in the set, and bytes are what it has committed for others, from
byte number from on (PMIX-59).
*/
func (m *meeting) appendRecord(blob []byte, x *attendee) []byte {
	from, bytes := x.group.hand(x.rank, m.set.isWhole())
	x.from = from // nobody else looks at it before the rank is released
	if len(bytes) == 0 {
		return blob
	}
	at := slices.IndexFunc(m.set, func(s setPart) bool { return s.group == x.group.Name })
	blob = binary.AppendUvarint(blob, uint64(at))
	blob = binary.AppendUvarint(blob, uint64(x.rank.number))
	blob = binary.AppendUvarint(blob, uint64(from))
	blob = binary.AppendUvarint(blob, uint64(len(bytes)))
	return append(blob, bytes...)
}

// A stretch is some of what a rank has committed for others, from a byte on.
type stretch struct {
	from  int
	bytes []byte
}

// after returns what is new in a stretch to who knows so many bytes; a gap cannot be filled.
func (p stretch) after(known int) []byte {
	if p.from > known || p.from+len(p.bytes) <= known {
		return nil
	}
	return p.bytes[known-p.from:]
}

// errRecord is the fault of what another node has brought.
var errRecord = errors.New("another node has brought what is none")

// open reads what the nodes have brought, and returns what shows it to the ranks of this one.
func (m *meeting) open(all [][]byte) (show func(), err error) {
	if m.local.Kind.Base() == fence.Construct {
		return m.openGroup(all)
	}
	fresh := make([]map[int]stretch, len(m.set)) // of each share of the set, by rank
	for _, blob := range all {
		for len(blob) > 0 {
			var group, rank, from, size uint64
			for _, number := range []*uint64{&group, &rank, &from, &size} {
				n := 0
				if *number, n = binary.Uvarint(blob); n <= 0 {
					return nil, errRecord
				}
				blob = blob[n:]
			}
			if group >= uint64(len(m.set)) || rank >= uint64(m.set[group].size) || from > maxCommitted || size > uint64(len(blob)) {
				return nil, errRecord
			}
			if fresh[group] == nil {
				fresh[group] = make(map[int]stretch)
			}
			fresh[group][int(rank)] = stretch{int(from), blob[:size:size]}
			blob = blob[size:]
		}
	}
	groups := make([]*group, len(m.set))
	for i, part := range m.set {
		groups[i] = m.server.named(part.group)
	}
	return func() {
		for i, brought := range fresh {
			if groups[i] != nil && brought != nil {
				groups[i].take(brought)
			}
		}
	}, nil
}

// take shows to the ranks of this node what a fence has brought of others.
func (g *group) take(brought map[int]stretch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := make([][]byte, g.Size)
	if before := g.spread.Load(); before != nil {
		copy(next, *before)
	}
	for rank, p := range brought {
		if g.byRank[rank] == nil {
			next[rank] = append(next[rank], p.after(len(next[rank]))...)
		}
	}
	g.spread.Store(&next)
}
