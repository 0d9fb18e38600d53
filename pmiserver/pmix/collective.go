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

/*
These calls carry out, on this node, a PMIx fence with data. The calls down to Enter run in the client's goroutine.
The others run in the goroutine that Local starts when the last rank has entered, if there are other nodes:

	client.handleRequest   COMMIT: group.commitPairs stores the pairs
	                       FENCE:  joinCollective   which processes? is the caller one of them?
	Server.enterCollective         the collective of this set, or a new one
	collective.addCall             at once, or after the fences that the rank has called before
	collective.enterFence          appendRecord: what the rank has committed since the last fence
	fence.Local.Enter              the last rank starts the exchange with other nodes (package fence)
	    |
	collective.decodeBlobs         records of all nodes; publish = group.addFenceData, for later Gets
	collective.releaseParticipant  replies to each client

A Get of such a rank then finds its data here: client.getFromNode, group.knownPairs.
*/

// A collectiveKey identifies a collective by its kind and its set of processes.
type collectiveKey struct {
	kind    fence.Kind
	members fence.Members
}

// A collective carries out the fences of one set of processes, one after the other, for the members on this node.
// It remains after a fence completes, because it counts the fences.
type collective struct {
	server *Server
	key    collectiveKey
	set    procSet
	local  fence.Local // with other jobs, its kind and members are those of a fence of our job

	mu           sync.Mutex     // guards the fields below
	participants []*participant // in the order of local.Ranks
	waitingCount int            // participants inside a fence; changed with server.mu held as well
	over         bool           // no rank may enter any more: one of its groups has ended, or it was removed
	removed      bool           // the next caller gets a new collective; server.mu guards over and removed

	contextID int // context ID of the PMIx group that was constructed last; read when participants are released
}

// A participant is a rank of this node that belongs to the set of processes of a collective.
type participant struct {
	group *group
	rank  *localRank
	calls []fenceCall // the first call is in the fence, the others wait for their turn
	timer *time.Timer // timeout of the first call; nil if it has none
	from  int         // byte offset from which the current fence took the rank's data
}

// A fenceCall is one client's call of a collective operation.
type fenceCall struct {
	client         *client
	request        requestInfo
	collect        bool
	wantsContextID bool          // the PMIx group that is constructed needs a context ID
	destructed     string        // ID of the PMIx group that is destructed
	timeout        time.Duration // how long the client waits in the fence; 0: without a limit (PMIX-31)
}

// maxFenceCalls is the maximum number of calls of one rank that wait in the same collective.
const maxFenceCalls = 1 << 10

// groupSize returns the name and size of the group with the given namespace. newProcSet calls it to look up groups.
func (s *Server) groupSize(namespace string) (group string, size int, known bool) {
	g := s.findGroup(namespace)
	if g == nil || g.otherJob {
		return "", 0, false
	}
	return g.Name, g.Size, true
}

// getCollective returns the collective with the given kind and set of processes. It creates the collective if
// necessary, and returns nil if there are already maxCollectives.
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

// newCollective creates a collective for the participants on this node. The caller holds s.mu.
func (s *Server) newCollective(key collectiveKey, members procSet) *collective {
	m := &collective{server: s, key: key, set: members}
	m.local.Kind, m.local.Members = key.kind, key.members
	for _, g := range s.groups {
		for _, number := range g.Ranks {
			if members.hasRank(g.Name, number) {
				m.participants = append(m.participants, &participant{group: g, rank: g.byRank[number]})
				m.local.Ranks, m.local.Groups = append(m.local.Ranks, number), append(m.local.Groups, g.Name)
			}
		}
	}
	if len(m.participants) < members.size() || key.kind.WithoutTag() == fence.Construct { // mpiexec chooses the context ID
		m.local.OtherNodes = s.OtherNodes
	}
	m.useOtherJobs()
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

// collectivesOf lists the collectives with a set of processes for which matches returns true.
func (s *Server) collectivesOf(matches func(procSet) bool) (all []*collective) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.collectives {
		if matches(m.set) {
			all = append(all, m)
		}
	}
	return all
}

func (m *participant) hasExited() bool { return m.group.hasExited(m.rank) }

// indexOf returns the index of a rank among the participants, or -1.
func (m *collective) indexOf(g *group, rank int) int {
	return slices.IndexFunc(m.participants, func(x *participant) bool { return x.group == g && x.rank.number == rank })
}

// rankLeft records that a rank will never enter the collective again.
func (m *collective) rankLeft(g *group, rank int) {
	if i := m.indexOf(g, rank); i >= 0 {
		m.local.RankLeft(i)
	}
}

// enterCollective adds a client's call to the collective of a set of processes. It returns false if there are
// too many collectives or calls, or if a group of the set has ended.
func (s *Server) enterCollective(kind fence.Kind, members procSet, call fenceCall) (ok bool) {
	for {
		m := s.getCollective(kind, members)
		switch {
		case m == nil:
			call.client.note("PMIx: the rank enters too many fences at the same time")
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

// addCall lets a rank enter the fence, either at once or after the fences that earlier calls of the rank wait for. It
// returns false if there are too many calls, or if the group has ended. A group can end before a call if a child
// process outlives its rank.
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

// countEntered counts a participant that enters a collective. It returns false if the collective is over, or
// if too many collectives are active. The caller holds m.mu.
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

// countLeft counts a participant that has left a fence. If the kind of the collective has a tag, and no participant
// uses the collective any more, it removes the collective. The caller holds m.mu.
func (s *Server) countLeft(m *collective) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.waitingCount--; m.waitingCount > 0 || m.over {
		return
	}
	s.activeCollectives--
	if m.key.kind != m.key.kind.WithoutTag() && m.local.IsUnused() {
		m.over, m.removed = true, true // so that a program that constructs groups for days does not fill the table
		delete(s.collectives, m.key)
	}
}

// removeCollectives removes the collectives of a group that has ended, and returns them. The caller holds
// s.mu.
func (s *Server) removeCollectives(group string) (removed []*collective) {
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
		removed = append(removed, m)
	}
	return removed
}

// stopTimers stops the timeouts of all participants of a collective that is over.
func (m *collective) stopTimers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.participants {
		if x.timer != nil {
			x.timer.Stop()
		}
	}
}

// GiveUp ends a fence with an error, because another node has given it up. It returns false if no rank of this node has
// entered a fence of this kind and set of processes yet. Ranks that enter the fence later receive the status TimedOut.
func (s *Server) GiveUp(id fence.ID) (known bool) {
	key := collectiveKey{id.Kind, id.Members}
	s.mu.Lock()
	m := s.collectives[key]
	if id.Kind.WithoutTag() == fence.OtherJobs {
		m = s.findByFence(key)
	}
	if m == nil && len(s.givenUp) < maxCollectives {
		s.givenUp[key] = id.Number + 1
	}
	s.mu.Unlock()
	if m != nil {
		m.local.GiveUp(id.Number)
	}
	return m != nil
}

// findByFence returns the collective of this job whose fence has the given kind and members, or nil. The
// caller holds s.mu.
func (s *Server) findByFence(key collectiveKey) *collective {
	for _, m := range s.collectives {
		if m.local.Kind == key.kind && m.local.Members == key.members {
			return m
		}
	}
	return nil
}

// enterFence carries out the first waiting call of participant i: it starts the call's timeout and enters the fence. If
// the call collects data, the fence sends the rank's committed data to the other nodes.
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
	var blob []byte
	if now.collect && m.local.OtherNodes != nil {
		blob = m.appendRecord(nil, x)
	}
	m.local.Enter(m.server.ctx, &m.server.tasks, i, blob, func(givenUp bool) { m.releaseParticipant(i, givenUp) })
}

// releaseParticipant replies to a participant whose fence has ended, and starts the participant's next call.
// If givenUp is true, the fence was given up. The client then receives the status TimedOut, and the next
// fence sends the rank's data again.
func (m *collective) releaseParticipant(i int, givenUp bool) {
	m.mu.Lock()
	x := m.participants[i]
	done := x.calls[0]
	x.calls = x.calls[1:]
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	if givenUp && done.collect && m.local.OtherNodes != nil {
		x.group.untakeForFence(x.rank, x.from, m.set.isWhole())
	}
	more := len(x.calls) > 0
	if !more {
		x.calls = nil
		m.server.countLeft(m)
	}
	m.mu.Unlock()
	if givenUp {
		done.client.replyStatus(done.request, message.TimedOut)
	} else {
		m.replyCompleted(done)
	}
	if more {
		m.enterFence(i)
	}
}

// replyCompleted tells a client that all processes have entered the fence. After a connect, the reply also contains the
// job info of the other groups, which may have to be requested from mpiexec (rule PMIX-45).
func (m *collective) replyCompleted(done fenceCall) {
	switch m.key.kind.WithoutTag() {
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

// replyConnected replies to a call of PMIx_Connect. The reply contains the job info of the other groups that connect.
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
appendRecord appends the data that a rank contributes to a fence that collects data:

	record = uvarint(group) uvarint(rank) uvarint(offset) uvarint(len bytes) bytes

group is the index of the rank's group in the set. bytes are the data that the rank has committed for
other nodes, without the first offset bytes (rule PMIX-59).
*/
func (m *collective) appendRecord(blob []byte, x *participant) []byte {
	from, bytes := x.group.takeForFence(x.rank, m.set.isWhole())
	x.from = from // no other goroutine reads it before the rank is released
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

// A byteRange is a part of the data that a rank has committed for other nodes. offset is the position of its first byte
// in that data.
type byteRange struct {
	offset int
	bytes  []byte
}

// newBytes returns the bytes of p that this node does not have yet. known is the number of bytes of the rank's data
// that this node has. The result is nil if p has no further bytes, or if there is a gap before p.
func (p byteRange) newBytes(known int) []byte {
	if p.offset > known || p.offset+len(p.bytes) <= known {
		return nil
	}
	return p.bytes[known-p.offset:]
}

// errBadRecord is returned when the fence data of another node cannot be decoded.
var errBadRecord = errors.New("PMIx: cannot parse the fence data that another host sent")

// decodeBlobs decodes the fence data of all nodes. publish makes the data visible to the ranks of this node.
func (m *collective) decodeBlobs(all [][]byte) (publish func(), err error) {
	if m.key.kind.WithoutTag() == fence.Construct {
		return m.decodeContextID(all)
	}
	fresh, err := m.decodeRecords(all)
	if err != nil {
		return nil, err
	}
	groups := make([]*group, len(m.set))
	for i, part := range m.set {
		groups[i] = m.server.groupByName(part.group)
	}
	return func() {
		for i, received := range fresh {
			if groups[i] != nil && received != nil {
				groups[i].addFenceData(received)
			}
		}
	}, nil
}

// decodeRecords decodes the records of all nodes. The result has one map for each group of the set, from rank to the
// data in the rank's record. A map is nil if there are no records of its group.
func (m *collective) decodeRecords(all [][]byte) (fresh []map[int]byteRange, err error) {
	fresh = make([]map[int]byteRange, len(m.set))
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
	return fresh, nil
}

// addFenceData makes data of remote ranks, received in a fence, visible to the ranks of this node.
func (g *group) addFenceData(received map[int]byteRange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := make([][]byte, g.Size)
	if before := g.fenceData.Load(); before != nil {
		copy(next, *before)
	}
	for rank, p := range received {
		if g.byRank[rank] == nil {
			next[rank] = append(next[rank], p.newBytes(len(next[rank]))...)
		}
	}
	g.fenceData.Store(&next)
}
