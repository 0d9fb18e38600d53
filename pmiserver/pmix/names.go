package pmix

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A Name is the entry of one published name in the table of names.
type Name struct {
	Port  string // value for ranks that use PMI-1 or PMI-2
	Value []byte // value for ranks that use PMIx, encoded by appendDatum; empty if the publisher uses PMI-1 or PMI-2
	Once  bool   // the first look-up removes it
}

// Names is the job's table of published names. mpiexec stores the table (rule PMIX-39), so the methods may
// block until mpiexec replies.
type Names interface {
	Publish(ctx context.Context, service string, n Name) (added bool, err error)
	Lookup(ctx context.Context, service string) (n Name, found bool, err error)
	Await(ctx context.Context, service string) (Name, error) // blocks until the name is published or ctx ends
	Unpublish(ctx context.Context, service string) error
}

// These are the limits for published names (pmix-wire.md 11; rule TRUST-24).
const (
	maxNameRequests = 1 << 10 // names in requests of one rank that have no reply yet
	maxNameBytes    = 4 << 10 // bytes of a name and its value
)

// errLookupTimeout is the cancellation cause of a look-up's context when the client's timeout has passed.
var errLookupTimeout = errors.New("the look-up of a published name timed out")

// requestNames calls send in a goroutine. send sends a request with the given number of names to mpiexec. If
// send returns Success, send itself has replied to the client. Otherwise requestNames replies with the returned
// status.
func (c *client) requestNames(q requestInfo, names int, send func(ctx context.Context) message.Status) {
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
		if job, ok := jobOf(c.group.Namespace); ok && c.server.SharesNames && !c.server.announced.Load() {
			c.server.announceJob(c.server.waitCtx, job) // if this fails, send fails, too
		}
		if status := send(c.server.waitCtx); status != message.Success {
			c.replyStatus(q, status)
		}
	})
}

// handlePublish publishes several names. It stops at the first name that is already published. The names
// before that one remain published.
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

// handleUnpublish removes names from the table. Names that the table does not contain are ignored.
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

// handleLookup replies with the values of published names. If the client wants to wait, the reply is sent when the
// required number of names are published (rule PMIX-40).
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
			var stop func()
			ctx, stop = c.server.watchPortOwners(ctx, r.Keys)
			defer stop()
		}
		found, status := c.findNames(ctx, r.Keys, least, waits)
		if status != message.Success && context.Cause(ctx) == errJobEnded {
			c.group.warn(c.rank.number, fmt.Sprintf("PMIx: the rank no longer waits for the name %s, because the job that opened the port of this name has ended", r.Keys[0]))
		}
		if status == message.Success {
			c.reply(q, "found", message.AppendFound(message.NewReply(q.tag), found))
		}
		return status
	})
}

// noteAwaited records that the rank waits for a name. The returned function records that it no longer waits.
func (c *client) noteAwaited(name string) (endWait func()) {
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

// findNames looks up keys. If mayWait is true, it blocks until at least minimum of them are published. It
// returns the results in the order of keys.
func (c *client) findNames(ctx context.Context, keys []string, minimum int, mayWait bool) ([]bfrops.Datum, message.Status) {
	var names []*Name
	if mayWait {
		names = c.awaitNames(ctx, keys, minimum)
	} else {
		names = c.lookupNow(ctx, keys)
	}
	var data []bfrops.Datum
	for i, n := range names {
		if n == nil {
			continue
		}
		if d, err := n.toDatum(keys[i], c.group.Namespace); err == nil { // a name of another job may have any bytes
			data = append(data, d)
			c.server.notePort(d, c.group.Namespace)
		}
	}
	if len(data) > 0 && (!mayWait || len(data) >= minimum) && !c.group.hasExited(c.rank) {
		return data, message.Success
	}
	c.republish(keys, names)
	switch {
	case context.Cause(ctx) == errLookupTimeout:
		return nil, message.TimedOut
	case mayWait:
		return nil, message.Failed
	}
	return nil, message.NotFound
}

// republish restores published names that a look-up has removed but whose values the client cannot receive
// (rule PMIX-41).
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

// lookupNow looks up keys one by one, without waiting. An element of the result is nil if its key is not
// published.
func (c *client) lookupNow(ctx context.Context, keys []string) []*Name {
	names := make([]*Name, len(keys))
	for i, key := range keys {
		if n, found, err := c.server.Names.Lookup(ctx, key); found && err == nil {
			names[i] = &n
		}
	}
	return names
}

// awaitNames waits until at least minimum of the keys are published, or ctx ends. An element of the result is
// nil if its key was not published.
func (c *client) awaitNames(ctx context.Context, keys []string, minimum int) []*Name {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	names, received := make([]*Name, len(keys)), make(chan bool)
	for i, key := range keys {
		go func() {
			n, err := c.server.Names.Await(ctx, key)
			if err == nil {
				names[i] = &n
			}
			received <- err == nil
		}()
	}
	for count, rest := 0, len(keys); rest > 0; rest-- {
		if <-received {
			count++
		}
		if count == minimum {
			enough()
		}
	}
	return names
}

// appendDatum appends the encoding of a datum to dst: the datum's publisher, key and value.
func appendDatum(dst []byte, d bfrops.Datum) []byte {
	return bfrops.AppendPair(bfrops.AppendProc(dst, d.Publisher), d.Key, d.Value)
}

// toDatum returns the key, the value and the publisher of a name that was found under key. If the name was published by
// PMI-1 or PMI-2, the value is a string, and the publisher has the rank NoRank. If the value is malformed or was
// published under another key, toDatum returns errBadName.
func (n Name) toDatum(key, namespace string) (bfrops.Datum, error) {
	if len(n.Value) == 0 {
		return bfrops.Datum{Publisher: bfrops.Proc{Namespace: namespace, Rank: bfrops.NoRank}, Pair: bfrops.Pair{Key: key, Value: bfrops.TextOf(n.Port)}}, nil
	}
	r := bfrops.NewReader(n.Value)
	d := bfrops.Datum{Publisher: r.Proc(), Pair: r.Pair()}
	if r.Err() != nil || r.More() || d.Key != key {
		return bfrops.Datum{}, errBadName
	}
	return d, nil
}

// errBadName is returned by toDatum for a value that is malformed or was published under another key.
var errBadName = errors.New("the value of the name cannot be decoded")
