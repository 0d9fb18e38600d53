package pmix

import (
	"context"
	"errors"
	"slices"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A Name is what is published under a name.
type Name struct {
	Port  string // what ranks that speak PMI are told
	Value []byte // what those that speak PMIx are told, as appendDatum writes it; none: he speaks PMI
	Once  bool   // the first who looks it up takes it
}

// Names is the table of published names, of which the job has one, in mpiexec (PMIX-39). The
// methods may wait for an answer from there.
type Names interface {
	Publish(ctx context.Context, service string, n Name) (added bool, err error)
	Lookup(ctx context.Context, service string) (n Name, found bool, err error)
	Await(ctx context.Context, service string) (Name, error) // until it is there, or ctx ends
	Unpublish(ctx context.Context, service string) error
}

// Bounds of names (pmix-wire.md 11; TRUST-24).
const (
	maxNameRequests = 1 << 10 // names of which requests of one rank are under way
	maxNameBytes    = 4 << 10 // bytes of a name with its value
)

// errLookupTimeout is the cause of a look-up that ends because the client waits no longer.
var errLookupTimeout = errors.New("the time of a look-up is over")

// requestNames answers a question about so many names, which mpiexec has, from a goroutine of its own.
func (c *client) requestNames(q requestInfo, names int, ask func(ctx context.Context) message.Status) {
	more := int32(max(names, 1))
	switch {
	case c.server.Names == nil:
		c.replyStatus(q, message.NotSupported)
		return
	case c.isEnding():
		c.replyStatus(q, message.Failed)
		return
	case c.rank.nameRequests.Add(more) > maxNameRequests:
		c.rank.nameRequests.Add(-more)
		c.replyStatus(q, message.NoMemory)
		return
	}
	c.server.tasks.Go(func() {
		defer c.rank.nameRequests.Add(-more)
		if status := ask(c.server.waitCtx); status != message.Success {
			c.replyStatus(q, status)
		}
	})
}

// handlePublish gives names to values. Of several, those before one that is there already stay.
func (c *client) handlePublish(q requestInfo, r *message.Publish) {
	once, data := r.Infos.Persistence() == message.FirstRead, r.Infos.Data()
	c.requestNames(q, len(data), func(ctx context.Context) message.Status {
		for _, datum := range data {
			n := Name{Value: appendDatum(nil, bfrops.Datum{Publisher: c.proc(), Pair: datum}), Once: once}
			n.Port, _ = datum.Value.Text()
			if len(datum.Key)+len(n.Port)+len(n.Value) > maxNameBytes {
				return message.NoMemory
			}
			switch added, err := c.server.Names.Publish(ctx, datum.Key, n); {
			case err != nil:
				return message.NoMemory
			case !added:
				return message.Duplicate
			}
		}
		c.replyStatus(q, message.Success)
		return message.Success
	})
}

// handleUnpublish takes names back. It does not mind if they are not there.
func (c *client) handleUnpublish(q requestInfo, r *message.Unpublish) {
	c.requestNames(q, len(r.Keys), func(ctx context.Context) message.Status {
		for _, key := range r.Keys {
			if err := c.server.Names.Unpublish(ctx, key); err != nil {
				return message.Failed
			}
		}
		c.replyStatus(q, message.Success)
		return message.Success
	})
}

// handleLookup answers with what is published, when as much of it is there as the client waits for
// (PMIX-40).
func (c *client) handleLookup(q requestInfo, r *message.Lookup) {
	c.requestNames(q, len(r.Keys), func(ctx context.Context) message.Status {
		least, waits := r.Options.Wait()
		if least == 0 || least > len(r.Keys) {
			least = len(r.Keys)
		}
		if after := r.Options.Timeout(); waits && after > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, after, errLookupTimeout)
			defer stop()
		}
		if waits && len(r.Keys) > 0 {
			defer c.noteAwaited(r.Keys[0])()
		}
		found, status := c.findNames(ctx, r.Keys, least, waits)
		if status == message.Success {
			c.reply(q, "found", message.AppendFound(message.NewReply(q.tag), found))
		}
		return status
	})
}

// noteAwaited notes that the rank waits for a name, until it is told that it does no more.
func (c *client) noteAwaited(name string) (noMore func()) {
	g, r := c.group, c.rank
	g.mu.Lock()
	defer g.mu.Unlock()
	r.awaitedNames = append(r.awaitedNames, name)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		i := slices.Index(r.awaitedNames, name)
		r.awaitedNames = slices.Delete(r.awaitedNames, i, i+1)
	}
}

// findNames looks keys up, and waits until so many are there. Its data are in the order of the keys.
func (c *client) findNames(ctx context.Context, keys []string, least int, waits bool) ([]bfrops.Datum, message.Status) {
	var names []*Name
	if waits {
		names = c.awaitNames(ctx, keys, least)
	} else {
		names = c.lookupNow(ctx, keys)
	}
	var data []bfrops.Datum
	for i, n := range names {
		if n != nil {
			data = append(data, n.toDatum(keys[i], c.group.Namespace))
		}
	}
	if len(data) > 0 && (!waits || len(data) >= least) && !c.group.hasExited(c.rank) {
		return data, message.Success
	}
	c.republish(keys, names)
	switch {
	case context.Cause(ctx) == errLookupTimeout:
		return nil, message.TimedOut
	case waits:
		return nil, message.Failed
	}
	return nil, message.NotFound
}

// republish publishes again what nobody else can find any more, and what the client does not get either
// (PMIX-41).
func (c *client) republish(keys []string, names []*Name) {
	for i, n := range names {
		if n != nil && n.Once {
			c.server.Names.Publish(c.server.ctx, keys[i], *n)
		}
	}
}

// hasExited reports whether the process of a rank has ended.
func (g *group) hasExited(r *localRank) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.exited
}

// lookupNow looks keys up, one after the other; nil: one is not there.
func (c *client) lookupNow(ctx context.Context, keys []string) []*Name {
	names := make([]*Name, len(keys))
	for i, key := range keys {
		if n, found, err := c.server.Names.Lookup(ctx, key); found && err == nil {
			names[i] = &n
		}
	}
	return names
}

// awaitNames waits for keys, all at once, until so many are there.
func (c *client) awaitNames(ctx context.Context, keys []string, least int) []*Name {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	names, there := make([]*Name, len(keys)), make(chan bool)
	for i, key := range keys {
		go func() {
			n, err := c.server.Names.Await(ctx, key)
			if err == nil {
				names[i] = &n
			}
			there <- err == nil
		}()
	}
	for count, rest := 0, len(keys); rest > 0; rest-- {
		if <-there {
			count++
		}
		if count == least {
			enough()
		}
	}
	return names
}

// appendDatum writes a datum as packs of its publisher, and of its key and value.
func appendDatum(dst []byte, d bfrops.Datum) []byte {
	return bfrops.AppendPair(bfrops.AppendProc(dst, d.Publisher), d.Key, d.Value)
}

// toDatum is what a look-up in a namespace finds under a name. One that was published by PMI is a
// text of nobody.
func (n Name) toDatum(key, namespace string) bfrops.Datum {
	if len(n.Value) == 0 {
		return bfrops.Datum{Publisher: bfrops.Proc{Namespace: namespace, Rank: bfrops.NoRank}, Pair: bfrops.Pair{Key: key, Value: bfrops.TextOf(n.Port)}}
	}
	r := bfrops.NewReader(n.Value)
	return bfrops.Datum{Publisher: r.Proc(), Pair: r.Pair()}
}
