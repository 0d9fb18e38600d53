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

// A collectiveKey tells meetings apart.
type collectiveKey struct {
	kind    fence.Kind
	members fence.Members
}

// A collective is where the processes of a set that are on this node meet, for one fence after the
// other. It is kept when it is over, since it counts how often they have met.
type collective struct {
	server *Server
	set    procSet
	local  fence.Local

	mu           sync.Mutex     // guards what follows
	participants []*participant // in the order of local.Ranks
	waitingCount int            // of members, those that wait; changed with server.mu held, too
	over         bool           // nobody comes any more: one of its groups is over, or it is spent
	removed      bool           // who comes later finds another one; these two belong to server.mu

	contextID int // number of the group that was made here last; read by those who leave
}

// A participant is a process of a meeting on this node.
type participant struct {
	group *group
	rank  *localRank
	calls []fenceCall // the first one is in the fence, the others come after it
	timer *time.Timer // of the first one; nil: it has no limit
	from  int         // what a fence of the whole group has taken before it
}

// A fenceCall is what a client asked a meeting for.
type fenceCall struct {
	client         *client
	request        requestInfo
	collect        bool
	wantsContextID bool          // a group that is made is to have a number
	destructed     string        // the group that is unmade
	timeout        time.Duration // how long it waits in the fence; 0: without an end (PMIX-31)
}

// maxFenceCalls is how many fences of one set a rank may have begun.
const maxFenceCalls = 1 << 10

// groupSize finds the group of a namespace, as newSet wants it.
func (s *Server) groupSize(namespace string) (group string, size int, known bool) {
	g := s.findGroup(namespace)
	if g == nil {
		return "", 0, false
	}
	return g.Name, g.Size, true
}

// getCollective returns the meeting of a set; nil: there are too many.
func (s *Server) getCollective(kind fence.Kind, members procSet) *collective {
	key := collectiveKey{kind, members.fenceMembers()}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.collectives[key]
	switch {
	case m != nil:
	case len(s.collectives) >= maxCollectives:
		return nil
	default:
		m = s.newCollective(key, members)
		s.collectives[key] = m
	}
	return m
}

// newCollective needs s.mu.
func (s *Server) newCollective(key collectiveKey, members procSet) *collective {
	m := &collective{server: s, set: members}
	m.local.Kind, m.local.Members = key.kind, key.members
	for _, g := range s.groups {
		for _, number := range g.Ranks {
			if members.hasRank(g.Name, number) {
				m.participants = append(m.participants, &participant{group: g, rank: g.byRank[number]})
				m.local.Ranks, m.local.Groups = append(m.local.Ranks, number), append(m.local.Groups, g.Name)
			}
		}
	}
	if len(m.participants) < members.size() || key.kind.WithoutTag() == fence.Construct { // whose number mpiexec has
		m.local.OtherNodes = s.OtherNodes
	}
	m.local.Decode, m.local.Broken, m.local.GiveUpStuck = m.decodeBlobs, s.reportBroken, s.GiveUpStuck
	m.local.SetMissed(s.givenUp[key])
	delete(s.givenUp, key)
	for i := range m.participants {
		if m.participants[i].hasExited() {
			m.local.RankLeft(i)
		}
	}
	return m
}

func (s *Server) reportBroken(err error) {
	if s.Broken != nil && !s.ending.Load() {
		s.Broken(err)
	}
}

// collectivesOf lists those of some sets.
func (s *Server) collectivesOf(these func(procSet) bool) (all []*collective) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.collectives {
		if these(m.set) {
			all = append(all, m)
		}
	}
	return all
}

func (m *participant) hasExited() bool { return m.group.hasExited(m.rank) }

// indexOf finds a rank among the members.
func (m *collective) indexOf(g *group, rank int) int {
	return slices.IndexFunc(m.participants, func(x *participant) bool { return x.group == g && x.rank.number == rank })
}

// rankLeft says that a rank will not come any more.
func (m *collective) rankLeft(g *group, rank int) {
	if i := m.indexOf(g, rank); i >= 0 {
		m.local.RankLeft(i)
	}
}

// enterCollective takes a client to the meeting of a set.
func (s *Server) enterCollective(kind fence.Kind, members procSet, call fenceCall) (entered bool) {
	for {
		m := s.getCollective(kind, members)
		switch {
		case m == nil:
			call.client.note("PMIx: too many fences at once")
			return false
		case m.addCall(call):
			return true
		case !s.isRemoved(m):
			return false
		}
	}
}

func (s *Server) isRemoved(m *collective) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.removed
}

// addCall takes a rank to the fence, now or when it comes out of those that it has begun before. It
// is false when there are too many, or when the group is over: what a rank has left may speak on.
func (m *collective) addCall(call fenceCall) bool {
	i := m.indexOf(call.client.group, call.client.rank.number)
	if i < 0 {
		return false
	}
	m.mu.Lock()
	x := m.participants[i]
	if len(x.calls) >= maxFenceCalls || len(x.calls) == 0 && !m.server.countEntered(m) {
		m.mu.Unlock()
		return false
	}
	x.calls = append(x.calls, call)
	first := len(x.calls) == 1
	m.mu.Unlock()
	if first {
		m.enterFence(i)
	}
	return true
}

// countEntered counts one that comes to a meeting; false: too many meet already. It needs m.mu.
func (s *Server) countEntered(m *collective) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.over {
		return false
	}
	if m.waitingCount == 0 {
		if s.activeCollectives >= maxActiveCollectives {
			return false
		}
		s.activeCollectives++
	}
	m.waitingCount++
	return true
}

// countLeft counts one that has left. It needs m.mu.
func (s *Server) countLeft(m *collective) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.waitingCount--; m.waitingCount > 0 || m.over {
		return
	}
	s.activeCollectives--
	if key := (collectiveKey{m.local.Kind, m.local.Members}); key.kind != key.kind.WithoutTag() && m.local.IsUnused() {
		m.over, m.removed = true, true // a program may make groups for days
		delete(s.collectives, key)
	}
}

// removeCollectives drops those of a group that is over, and returns them. It needs s.mu.
func (s *Server) removeCollectives(group string) (gone []*collective) {
	maps.DeleteFunc(s.givenUp, func(key collectiveKey, _ int) bool { return slices.Contains(key.members.Groups(), group) })
	for key, m := range s.collectives {
		if !m.set.hasGroup(group) {
			continue
		}
		m.over = true
		delete(s.collectives, key)
		if m.waitingCount > 0 {
			s.activeCollectives--
		}
		gone = append(gone, m)
	}
	return gone
}

// stopTimers lets nobody give up a fence of a meeting that is over.
func (m *collective) stopTimers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.participants {
		if x.timer != nil {
			x.timer.Stop()
		}
	}
}

// GiveUp ends a fence that another node has given up; false: none of this one has ever come to those
// members, and who does is told then.
func (s *Server) GiveUp(id fence.ID) (met bool) {
	key := collectiveKey{id.Kind, id.Members}
	s.mu.Lock()
	m := s.collectives[key]
	if m == nil && len(s.givenUp) < maxCollectives {
		s.givenUp[key] = id.Number + 1
	}
	s.mu.Unlock()
	if m != nil {
		m.local.GiveUp(id.Number)
	}
	return m != nil
}

// enterFence takes a member into the fence, with what it has committed if it wants that spread.
func (m *collective) enterFence(i int) {
	m.mu.Lock()
	x := m.participants[i]
	now := x.calls[0]
	if now.timeout > 0 {
		number := m.local.NextNumber(i)
		x.timer = time.AfterFunc(now.timeout, func() { m.server.runTask(func() { m.local.GiveUp(number) }) })
	}
	m.mu.Unlock()
	if m.local.Kind == fence.PMIxFence && m.set.isWhole() && now.timeout == 0 && x.group.FenceEntered != nil {
		x.group.FenceEntered(x.rank.number)
	}
	var brings []byte
	if now.collect && m.local.OtherNodes != nil {
		brings = m.appendRecord(nil, x)
	}
	m.local.Enter(m.server.ctx, &m.server.tasks, i, brings, func(late bool) { m.releaseParticipant(i, late) })
}

// releaseParticipant answers a member that comes out of the fence, and takes it into the next one. What it has
// brought to one that was given up it brings again.
func (m *collective) releaseParticipant(i int, late bool) {
	m.mu.Lock()
	x := m.participants[i]
	done := x.calls[0]
	x.calls = x.calls[1:]
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	if late && done.collect && m.local.OtherNodes != nil {
		x.group.untakeForFence(x.rank, x.from, m.set.isWhole())
	}
	more := len(x.calls) > 0
	if !more {
		x.calls = nil
		m.server.countLeft(m)
	}
	m.mu.Unlock()
	if late {
		done.client.replyStatus(done.request, message.TimedOut)
	} else {
		m.replyCompleted(done)
	}
	if more {
		m.enterFence(i)
	}
}

// replyCompleted tells a client that all are there; who are connected learn of each other's groups, of
// which mpiexec may have to be asked (PMIX-45).
func (m *collective) replyCompleted(done fenceCall) {
	switch m.local.Kind.WithoutTag() {
	case fence.Connect:
		m.server.tasks.Go(func() { m.replyConnected(done) })
	case fence.Construct:
		m.replyGroup(done)
	case fence.Destruct:
		done.client.rank.forgetGroup(done.client.group, done.destructed)
		done.client.replyStatus(done.request, message.Success)
	default:
		done.client.replyStatus(done.request, message.Success)
	}
}

func (m *collective) replyConnected(done fenceCall) {
	reply := message.AppendStatus(message.NewReply(done.request.tag), message.Success)
	for _, part := range m.set {
		g := m.server.groupByName(part.group)
		if g == nil || g == done.client.group {
			continue
		}
		_, info, err := g.loadJobInfo(m.server.ctx)
		if err != nil {
			done.client.replyStatus(done.request, message.Failed)
			return
		}
		reply = message.AppendConnected(reply, g.Namespace, info)
	}
	done.client.reply(done.request, "connected", reply)
}

/*
What a rank brings to a fence that collects:

	record = uvarint(group) uvarint(rank) uvarint(from) uvarint(len bytes) bytes

group is the number of its group in the set, and bytes are what it has committed for others, from
byte number from on (PMIX-59).
*/
func (m *collective) appendRecord(blob []byte, x *participant) []byte {
	from, bytes := x.group.takeForFence(x.rank, m.set.isWhole())
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

// A byteRange is some of what a rank has committed for others, from a byte on.
type byteRange struct {
	from  int
	bytes []byte
}

// newBytes returns what is new in a stretch to who knows so many bytes; a gap cannot be filled.
func (p byteRange) newBytes(known int) []byte {
	if p.from > known || p.from+len(p.bytes) <= known {
		return nil
	}
	return p.bytes[known-p.from:]
}

// errBadRecord is the fault of what another node has brought.
var errBadRecord = errors.New("another node has brought what is none")

// decodeBlobs reads what the nodes have brought, and returns what shows it to the ranks of this one.
func (m *collective) decodeBlobs(all [][]byte) (show func(), err error) {
	if m.local.Kind.WithoutTag() == fence.Construct {
		return m.decodeContextID(all)
	}
	fresh := make([]map[int]byteRange, len(m.set)) // of each share of the set, by rank
	for _, blob := range all {
		for len(blob) > 0 {
			var group, rank, from, size uint64
			for _, number := range []*uint64{&group, &rank, &from, &size} {
				n := 0
				if *number, n = binary.Uvarint(blob); n <= 0 {
					return nil, errBadRecord
				}
				blob = blob[n:]
			}
			if group >= uint64(len(m.set)) || rank >= uint64(m.set[group].size) || from > maxRankBytes || size > uint64(len(blob)) {
				return nil, errBadRecord
			}
			if fresh[group] == nil {
				fresh[group] = make(map[int]byteRange)
			}
			fresh[group][int(rank)] = byteRange{int(from), blob[:size:size]}
			blob = blob[size:]
		}
	}
	groups := make([]*group, len(m.set))
	for i, part := range m.set {
		groups[i] = m.server.groupByName(part.group)
	}
	return func() {
		for i, brought := range fresh {
			if groups[i] != nil && brought != nil {
				groups[i].addFenceData(brought)
			}
		}
	}, nil
}

// addFenceData shows to the ranks of this node what a fence has brought of others.
func (g *group) addFenceData(brought map[int]byteRange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := make([][]byte, g.Size)
	if before := g.fenceData.Load(); before != nil {
		copy(next, *before)
	}
	for rank, p := range brought {
		if g.byRank[rank] == nil {
			next[rank] = append(next[rank], p.newBytes(len(next[rank]))...)
		}
	}
	g.fenceData.Store(&next)
}
