package pmiserver

import (
	"remshell/pmiserver/dialect"
	"remshell/pmiserver/spawn"
)

// What a dialect has done for its rank: session is its dialect.Server.
var _ dialect.Server = (*rankSession)(nil)

// maxSpawns is how many requests to spawn a rank may have under way. Real clients stay far
// below.
const maxSpawns = 16

// Init takes the rank to where it may ask.
func (c *rankSession) Init() { c.become(Inited) }

// Finalize takes it to where it may not any more.
func (c *rankSession) Finalize() { c.become(Finalized) }

// Abort ends all talk of the node's ranks.
func (c *rankSession) Abort(code int, message string) {
	c.aborted = true
	c.s.abort(c.Number, code, message)
}

// Note passes on an oddity.
func (c *rankSession) Note(text string) { c.s.note(c.Number, text) }

// Flush sends the answers so far.
func (c *rankSession) Flush() { c.flush() }

// Tell sends an answer. Any goroutine may call it.
func (c *rankSession) Tell(answer []byte) { c.tell(answer) }

// Dead lists the ranks that ended by failing.
func (c *rankSession) Dead() string { return c.s.Dead() }

// Fence takes the rank into the fence of its group. The answers so far are due before the one
// that this may bring about.
func (c *rankSession) Fence(release func() []byte) {
	c.flush()
	if c.s.fence.Waits(c.local) > 0 {
		c.Note("entered a barrier twice")
		return
	}
	if c.s.Entering != nil {
		c.s.Entering(c.Number)
	}
	puts, cost := c.Keys.Hand()
	c.s.fence.Enter(c.ctx, &c.late, c.local, puts, func(bool) { // nobody gives up a barrier
		c.s.keys.Free(cost)
		c.tell(release())
	})
}

// Spawn has a request carried out, and answers when that is done.
func (c *rankSession) Spawn(r spawn.Request, answer func(spawn.Outcome) []byte) (refused string) {
	if why := r.Faulty(); why != "" {
		return why
	}
	switch {
	case c.s.Spawner == nil:
		return dialect.Word(dialect.ErrUnsupported)
	case c.spawns.Load() >= maxSpawns:
		return "too_many_spawns"
	}
	r.Group, r.Rank = c.Group, c.Number
	c.spawns.Add(1)
	c.late.Go(func() {
		var done spawn.Outcome
		done.Group, done.Codes, done.Err = c.s.Spawner.Spawn(c.ctx, r)
		c.spawns.Add(-1)
		c.tell(answer(done))
	})
	return ""
}

// Publish publishes a name, unless it is too long to travel.
func (c *rankSession) Publish(service, port []byte) (added bool, err error) {
	switch {
	case c.s.Names == nil:
		return false, dialect.ErrUnsupported
	case len(service)+len(port) > maxName:
		return false, errLongName
	}
	return c.s.Names.Publish(c.ctx, string(service), string(port))
}

// Lookup looks a name up; what is too long cannot have been published.
func (c *rankSession) Lookup(service []byte) (port string, found bool, err error) {
	switch {
	case c.s.Names == nil:
		return "", false, dialect.ErrUnsupported
	case len(service) > maxName:
		return "", false, nil
	}
	return c.s.Names.Lookup(c.ctx, string(service))
}

// Unpublish withdraws a name, in the same way.
func (c *rankSession) Unpublish(service []byte) (removed bool, err error) {
	switch {
	case c.s.Names == nil:
		return false, dialect.ErrUnsupported
	case len(service) > maxName:
		return false, nil
	}
	return c.s.Names.Unpublish(c.ctx, string(service))
}

// Hosts tells where the ranks of the group are.
func (c *rankSession) Hosts() (nodes []string, of []int, err error) {
	if c.s.Hosts == nil {
		return nil, nil, dialect.ErrUnsupported
	}
	return c.s.Hosts(c.ctx)
}
