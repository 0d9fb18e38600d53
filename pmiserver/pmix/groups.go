package pmix

import (
	"encoding/binary"
	"fmt"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A PMIx group is a set of processes with an ID, as for MPI_Comm_create_from_group. A fence with this ID in
// its kind constructs it, and another one destructs it. In between, the server stores only the
// list of its members, for clients of old PMIx versions (rememberGroup).

// constructGroup lets a rank enter the fence that constructs a PMIx group.
func (c *client) constructGroup(q requestInfo, r *message.GroupConstruct) {
	if c.server.OtherNodes == nil { // without mpiexec there are no context IDs
		c.replyStatus(q, message.NotSupported)
		return
	}
	c.rank.rememberGroup(c, r)
	c.joinCollective(q, fence.Construct.WithTag(r.ID), r.Procs, fenceCall{wantsContextID: r.Options.ContextID(), timeout: r.Options.Timeout()})
}

// destructGroup lets a rank enter the fence that destructs a PMIx group.
func (c *client) destructGroup(q requestInfo, r *message.GroupDestruct) {
	members := r.Procs
	if len(members) == 0 {
		members = c.rank.recallGroup(c.group, r.ID)
	}
	c.joinCollective(q, fence.Destruct.WithTag(r.ID), members, fenceCall{destructed: r.ID, timeout: r.Options.Timeout()})
}

// lastMajorWithoutMembers is the last major version of OpenPMIx whose clients do not name the members of a group when
// they destruct it.
const lastMajorWithoutMembers = 4

// These are the limits for storing the members of PMIx groups for one rank. The members of a group that would
// exceed a limit are not stored.
const (
	maxMadeGroups = 1 << 10
	maxMembers    = 1 << 16 // members of all groups together
)

// rememberGroup stores the members of a PMIx group for a client whose library does not send them when it
// destructs the group.
func (r *localRank) rememberGroup(c *client, construct *message.GroupConstruct) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	r.madeMembers -= len(r.madeGroups[construct.ID])
	if c.major > lastMajorWithoutMembers || len(r.madeGroups) >= maxMadeGroups || r.madeMembers+len(construct.Procs) > maxMembers {
		delete(r.madeGroups, construct.ID)
		return
	}
	if r.madeGroups == nil {
		r.madeGroups = make(map[string][]bfrops.Proc)
	}
	r.madeGroups[construct.ID] = construct.Procs
	r.madeMembers += len(construct.Procs)
}

// recallGroup returns the members of a PMIx group, or nil if they were not stored.
func (r *localRank) recallGroup(g *group, id string) []bfrops.Proc {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.madeGroups[id]
}

// forgetGroup forgets the members of a PMIx group that was destructed. After a timeout the members are kept,
// because the client may repeat the request.
func (r *localRank) forgetGroup(g *group, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.madeMembers -= len(r.madeGroups[id])
	delete(r.madeGroups, id)
}

// decodeContextID decodes the context ID of a PMIx group, which mpiexec has appended to the data of the fence.
// publish stores the ID.
func (m *collective) decodeContextID(all [][]byte) (publish func(), err error) {
	if len(all) == 0 {
		return nil, errBadRecord
	}
	number, n := binary.Uvarint(all[len(all)-1])
	if n <= 0 || number > maxContextID {
		return nil, errBadRecord
	}
	return func() { m.contextID = int(number) }, nil
}

// maxContextID is the largest context ID of a PMIx group (rule PMIX-46).
const maxContextID = 1<<31 - 1

// replyGroup replies to a request to construct a PMIx group. The reply contains the members, and a
// context ID if the client has asked for one.
func (m *collective) replyGroup(done fenceCall) {
	context := 0
	if done.wantsContextID {
		context = m.contextID
	}
	c := done.client
	reply := message.AppendGroup(message.NewReply(done.request.tag), c.major, m.procs(), context)
	c.reply(done.request, fmt.Sprintf("%d processes, context ID %d", m.set.size(), context), reply)
}

// procs returns the processes of the collective on all nodes.
func (m *collective) procs() (all []bfrops.Proc) {
	for _, part := range m.set {
		add := func(rank int) { all = append(all, bfrops.Proc{Namespace: part.namespace, Rank: bfrops.Rank(rank)}) }
		for _, rank := range part.ranks {
			add(rank)
		}
		for rank := 0; part.ranks == nil && rank < part.size; rank++ {
			add(rank)
		}
	}
	return all
}
