package pmiserver

import (
	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/spawn"
)

// rankSession implements pmiversion.Session.
var _ pmiversion.Session = (*rankSession)(nil)

// maxSpawns is the maximum number of spawn requests that one rank may have in progress at the same time. Known clients
// have far fewer.
const maxSpawns = 16

// Init records that the rank has sent init.
func (c *rankSession) Init() { c.setState(Inited) }

// Finalize records that the rank has sent finalize.
func (c *rankSession) Finalize() { c.setState(Finalized) }

// Abort stops all replies to ranks and reports to the supervisor that the rank has aborted the job.
func (c *rankSession) Abort(code int, message string) {
	c.aborted = true
	c.server.abortJob(c.Number, code, message)
}

// Note reports that this rank's client has done something unusual.
func (c *rankSession) Note(text string) { c.server.reportNote(c.Number, text) }

// Flush sends the replies that have been collected.
func (c *rankSession) Flush() { c.flush() }

// SendReply sends a reply. Any goroutine may call it.
func (c *rankSession) SendReply(reply []byte) { c.sendReply(reply) }

// DeadRanks returns the ranks of the group that have failed while the others continue, as a string such as "3,1".
func (c *rankSession) DeadRanks() string { return c.server.DeadRanks() }

// Fence makes the rank enter the fence of its group. When the fence completes, the rank receives the bytes that release
// returns. Earlier replies that are still in the buffer are sent first.
func (c *rankSession) Fence(release func() []byte) {
	c.flush()
	if c.server.fence.WaitsIn(c.localIndex) > 0 {
		c.Note("the rank entered the same barrier twice")
		return
	}
	if c.server.BarrierEntered != nil {
		c.server.BarrierEntered(c.Number)
	}
	puts, cost := c.Keys.TakeForFence()
	c.server.fence.Enter(c.ctx, &c.pending, c.localIndex, puts, func(bool) { // no rank gives up a barrier, so the argument is always false
		c.server.store.SubtractPending(cost)
		c.sendReply(release())
	})
}

// Spawn begins a spawn request. When the spawn is complete, the rank receives the reply that answer returns. If
// the request is refused, refused is one word that says why; otherwise it is empty.
func (c *rankSession) Spawn(r spawn.Request, answer func(spawn.Result) []byte) (refused string) {
	if why := r.Problem(); why != "" {
		return why
	}
	switch {
	case c.server.Spawner == nil:
		return pmiversion.ErrorWord(pmiversion.ErrUnsupported)
	case c.spawns.Load() >= maxSpawns:
		return "too_many_spawns"
	}
	r.Group, r.Rank = c.Group, c.Number
	c.spawns.Add(1)
	c.pending.Go(func() {
		var done spawn.Result
		done.Group, done.Codes, done.Err = c.server.Spawner.Spawn(c.ctx, r)
		c.spawns.Add(-1)
		c.sendReply(answer(done))
	})
	return ""
}

// Publish publishes a name. added is false if the name is already published. Publish returns errLongName if name and
// port together exceed maxNameBytes.
func (c *rankSession) Publish(service, port []byte) (added bool, err error) {
	switch {
	case c.server.Names == nil:
		return false, pmiversion.ErrUnsupported
	case len(service)+len(port) > maxNameBytes:
		return false, errLongName
	}
	return c.server.Names.Publish(c.ctx, string(service), string(port))
}

// Lookup returns the port of a name. A name that exceeds maxNameBytes is never found.
func (c *rankSession) Lookup(service []byte) (port string, found bool, err error) {
	switch {
	case c.server.Names == nil:
		return "", false, pmiversion.ErrUnsupported
	case len(service) > maxNameBytes:
		return "", false, nil
	}
	return c.server.Names.Lookup(c.ctx, string(service))
}

// Unpublish removes a name. removed is false if the name was not published.
func (c *rankSession) Unpublish(service []byte) (removed bool, err error) {
	switch {
	case c.server.Names == nil:
		return false, pmiversion.ErrUnsupported
	case len(service) > maxNameBytes:
		return false, nil
	}
	return c.server.Names.Unpublish(c.ctx, string(service))
}

// Hosts returns the names of the group's nodes, and for each rank the index of its node in nodes. It may block.
func (c *rankSession) Hosts() (nodes []string, nodeOfRank []int, err error) {
	if c.server.Hosts == nil {
		return nil, nil, pmiversion.ErrUnsupported
	}
	return c.server.Hosts(c.ctx)
}
