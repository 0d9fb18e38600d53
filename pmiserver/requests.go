package pmiserver

import (
	"remshell/pmiserver/pmiversion"
	"remshell/pmiserver/spawn"
)

// What a dialect has done for its rank: session is its pmiversion.Server.
var _ pmiversion.Server = (*rankSession)(nil)

// maxSpawns is how many requests to spawn a rank may have under way. Real clients stay far
// below.
const maxSpawns = 16

// Init takes the rank to where it may ask.
func (c *rankSession) Init() { c.setState(Inited) }

// Finalize takes it to where it may not any more.
func (c *rankSession) Finalize() { c.setState(Finalized) }

// Abort ends all talk of the node's ranks.
func (c *rankSession) Abort(code int, message string) {
	c.aborted = true
	c.server.abortJob(c.Number, code, message)
}

// Note passes on an oddity.
func (c *rankSession) Note(text string) { c.server.reportNote(c.Number, text) }

// Flush sends the answers so far.
func (c *rankSession) Flush() { c.flush() }

// SendReply sends an answer. Any goroutine may call it.
func (c *rankSession) SendReply(answer []byte) { c.sendReply(answer) }

// DeadRanks lists the ranks that ended by failing.
func (c *rankSession) DeadRanks() string { return c.server.DeadRanks() }

// Fence takes the rank into the fence of its group. The answers so far are due before the one
// that this may bring about.
func (c *rankSession) Fence(release func() []byte) {
	c.flush()
	if c.server.fence.WaitsIn(c.localIndex) > 0 {
		c.Note("entered a barrier twice")
		return
	}
	if c.server.BarrierEntered != nil {
		c.server.BarrierEntered(c.Number)
	}
	puts, cost := c.Keys.TakeForFence()
	c.server.fence.Enter(c.ctx, &c.pending, c.localIndex, puts, func(bool) { // nobody gives up a barrier
		c.server.store.SubtractPending(cost)
		c.sendReply(release())
	})
}

// Spawn has a request carried out, and answers when that is done.
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

// Publish publishes a name, unless it is too long to travel.
func (c *rankSession) Publish(service, port []byte) (added bool, err error) {
	switch {
	case c.server.Names == nil:
		return false, pmiversion.ErrUnsupported
	case len(service)+len(port) > maxNameBytes:
		return false, errLongName
	}
	return c.server.Names.Publish(c.ctx, string(service), string(port))
}

// Lookup looks a name up; what is too long cannot have been published.
func (c *rankSession) Lookup(service []byte) (port string, found bool, err error) {
	switch {
	case c.server.Names == nil:
		return "", false, pmiversion.ErrUnsupported
	case len(service) > maxNameBytes:
		return "", false, nil
	}
	return c.server.Names.Lookup(c.ctx, string(service))
}

// Unpublish withdraws a name, in the same way.
func (c *rankSession) Unpublish(service []byte) (removed bool, err error) {
	switch {
	case c.server.Names == nil:
		return false, pmiversion.ErrUnsupported
	case len(service) > maxNameBytes:
		return false, nil
	}
	return c.server.Names.Unpublish(c.ctx, string(service))
}

// Hosts tells where the ranks of the group are.
func (c *rankSession) Hosts() (nodes []string, of []int, err error) {
	if c.server.Hosts == nil {
		return nil, nil, pmiversion.ErrUnsupported
	}
	return c.server.Hosts(c.ctx)
}
