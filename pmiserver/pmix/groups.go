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

// construct takes a rank to where a group is made.
func (c *client) construct(q envelope, r *message.GroupConstruct) {
	if c.server.Others == nil { // nobody has numbers
		c.status(q, message.NotSupported)
		return
	}
	c.rank.remember(c, r)
	c.meet(q, fence.Construct.Tagged(r.ID), r.Procs, fenceCall{numbered: r.Options.ContextID(), timeout: r.Options.Timeout()})
}

// destruct takes a rank to where a group is unmade.
func (c *client) destruct(q envelope, r *message.GroupDestruct) {
	members := r.Procs
	if len(members) == 0 {
		members = c.rank.recall(c.group, r.ID)
	}
	c.meet(q, fence.Destruct.Tagged(r.ID), members, fenceCall{unmade: r.ID, timeout: r.Options.Timeout()})
}

// namesNone is the last version of the library that does not say of whom a group is that it unmakes.
const namesNone = 4

// Bounds of what is remembered of the groups of a rank: of others it has to name the members.
const (
	maxMade    = 1 << 10
	maxMembers = 1 << 16 // of all of them
)

// remember keeps the members of a group for a client that will not name them again.
func (r *localRank) remember(c *client, made *message.GroupConstruct) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	r.members -= len(r.made[made.ID])
	if c.major > namesNone || len(r.made) >= maxMade || r.members+len(made.Procs) > maxMembers {
		delete(r.made, made.ID)
		return
	}
	if r.made == nil {
		r.made = make(map[string][]bfrops.Proc)
	}
	r.made[made.ID] = made.Procs
	r.members += len(made.Procs)
}

// recall returns the members of a group, as far as they are remembered.
func (r *localRank) recall(g *group, id string) []bfrops.Proc {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.made[id]
}

// forget drops the members of a group that is unmade. One whose members have not all come to that may
// be unmade later.
func (r *localRank) forget(g *group, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.members -= len(r.made[id])
	delete(r.made, id)
}

// openGroup reads the number of a group, which is the last of what comes of its fence.
func (m *meeting) openGroup(all [][]byte) (show func(), err error) {
	if len(all) == 0 {
		return nil, errRecord
	}
	number, n := binary.Uvarint(all[len(all)-1])
	if n <= 0 || number > maxContext {
		return nil, errRecord
	}
	return func() { m.context = int(number) }, nil
}

// maxContext is the largest number of a group (PMIX-46).
const maxContext = 1<<31 - 1

// answerGroup tells a member of a group that it is made, and what its number is if it wants one.
func (m *meeting) answerGroup(done fenceCall) {
	context := 0
	if done.numbered {
		context = m.context
	}
	c := done.client
	reply := message.AppendGroup(message.NewReply(done.question.tag), c.major, m.procs(), context)
	c.reply(done.question, fmt.Sprintf("group of %d, context %d", m.set.count(), context), reply)
}

// procs lists the members of a meeting, on all nodes.
func (m *meeting) procs() (all []bfrops.Proc) {
	for _, part := range m.set {
		add := func(rank int) { all = append(all, bfrops.Proc{Namespace: part.space, Rank: bfrops.Rank(rank)}) }
		for _, rank := range part.ranks {
			add(rank)
		}
		for rank := 0; part.ranks == nil && rank < part.size; rank++ {
			add(rank)
		}
	}
	return all
}
