package pmix

import (
	"encoding/binary"
	"fmt"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A group of PMIx is processes that have met for a name: MPI_Comm_create_from_group. It is made at a fence
// whose kind has that name, and unmade at another one; in between nothing is known of it here.

// constructGroup takes a rank to where a group is made.
func (c *client) constructGroup(q requestInfo, r *message.GroupConstruct) {
	if c.server.OtherNodes == nil { // nobody has numbers
		c.replyStatus(q, message.NotSupported)
		return
	}
	c.rank.rememberGroup(c, r)
	c.joinCollective(q, fence.Construct.WithTag(r.ID), r.Procs, fenceCall{wantsContextID: r.Options.ContextID(), timeout: r.Options.Timeout()})
}

// destructGroup takes a rank to where a group is unmade.
func (c *client) destructGroup(q requestInfo, r *message.GroupDestruct) {
	members := r.Procs
	if len(members) == 0 {
		members = c.rank.recallGroup(c.group, r.ID)
	}
	c.joinCollective(q, fence.Destruct.WithTag(r.ID), members, fenceCall{destructed: r.ID, timeout: r.Options.Timeout()})
}

// lastMajorWithoutMembers is the last version of the library that does not say of whom a group is that it unmakes.
const lastMajorWithoutMembers = 4

// Bounds of what is remembered of the groups of a rank: of others it has to name the members.
const (
	maxMadeGroups = 1 << 10
	maxMembers    = 1 << 16 // of all of them
)

// rememberGroup keeps the members of a group for a client that will not name them again.
func (r *localRank) rememberGroup(c *client, made *message.GroupConstruct) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	r.madeMembers -= len(r.madeGroups[made.ID])
	if c.major > lastMajorWithoutMembers || len(r.madeGroups) >= maxMadeGroups || r.madeMembers+len(made.Procs) > maxMembers {
		delete(r.madeGroups, made.ID)
		return
	}
	if r.madeGroups == nil {
		r.madeGroups = make(map[string][]bfrops.Proc)
	}
	r.madeGroups[made.ID] = made.Procs
	r.madeMembers += len(made.Procs)
}

// recallGroup returns the members of a group, as far as they are remembered.
func (r *localRank) recallGroup(g *group, id string) []bfrops.Proc {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.madeGroups[id]
}

// forgetGroup drops the members of a group that is unmade. One whose members have not all come to that may
// be unmade later.
func (r *localRank) forgetGroup(g *group, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.madeMembers -= len(r.madeGroups[id])
	delete(r.madeGroups, id)
}

// decodeContextID reads the number of a group, which is the last of what comes of its fence.
func (m *collective) decodeContextID(all [][]byte) (show func(), err error) {
	if len(all) == 0 {
		return nil, errBadRecord
	}
	number, n := binary.Uvarint(all[len(all)-1])
	if n <= 0 || number > maxContextID {
		return nil, errBadRecord
	}
	return func() { m.contextID = int(number) }, nil
}

// maxContextID is the largest number of a group (PMIX-46).
const maxContextID = 1<<31 - 1

// replyGroup tells a member of a group that it is made, and what its number is if it wants one.
func (m *collective) replyGroup(done fenceCall) {
	context := 0
	if done.wantsContextID {
		context = m.contextID
	}
	c := done.client
	reply := message.AppendGroup(message.NewReply(done.request.tag), c.major, m.procs(), context)
	c.reply(done.request, fmt.Sprintf("group of %d, context %d", m.set.size(), context), reply)
}

// procs lists the members of a meeting, on all nodes.
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
