package pmiserver

import (
	"context"
	"errors"
	"sync"
)

// Names is the table of the names that ranks publish for MPI_Comm_accept and
// look up for MPI_Comm_connect. There is one for all groups of a job, in mpiexec,
// so the methods may wait for an answer from there. A name outlives the rank that
// published it (pmi-wire.md 2.5).
type Names interface {
	Publish(ctx context.Context, service, port string) (added bool, err error)
	Lookup(ctx context.Context, service string) (port string, found bool, err error)
	Unpublish(ctx context.Context, service string) (removed bool, err error)
}

// The limits of a table (TRUST-24): names, and bytes of one with its port.
const (
	maxNames = 1024
	maxName  = 4 << 10
)

// What a table does not take.
var (
	errNamesFull = errors.New("name table full")
	errLongName  = errors.New("name too long")
)

// A NameTable is the table itself. The zero value is empty and ready.
type NameTable struct {
	mu    sync.Mutex // guards ports
	ports map[string]string
}

var _ Names = (*NameTable)(nil)

// Publish adds a name, unless it is there already. It fails when there are too many.
func (t *NameTable) Publish(_ context.Context, service, port string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.ports[service]; there {
		return false, nil
	}
	if len(t.ports) == maxNames {
		return false, errNamesFull
	}
	if t.ports == nil {
		t.ports = make(map[string]string)
	}
	t.ports[service] = port
	return true, nil
}

// Lookup returns the port published under a name. It never fails.
func (t *NameTable) Lookup(_ context.Context, service string) (string, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	port, found := t.ports[service]
	return port, found, nil
}

// Unpublish removes a name. It never fails.
func (t *NameTable) Unpublish(_ context.Context, service string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.ports[service]
	delete(t.ports, service)
	return there, nil
}

func (c *session) publish() {
	if c.s.Names == nil {
		c.refuse("publish_result", "unsupported")
		return
	}
	port := c.args.text("port")
	if len(port) == 0 { // programs do publish one, when MPI_Open_port has failed
		c.refuse("publish_result", "missing_port")
		return
	}
	added, err := c.announce(c.args.text("service"), port)
	c.named("publish_result", "key_already_present", added, err)
}

// announce publishes a name, unless it is too long to travel.
func (c *session) announce(service, port []byte) (added bool, err error) {
	if len(service)+len(port) > maxName {
		return false, errLongName
	}
	return c.s.Names.Publish(c.ctx, string(service), string(port))
}

// find looks a name up; what is too long cannot have been published.
func (c *session) find(service []byte) (port string, found bool, err error) {
	if len(service) > maxName {
		return "", false, nil
	}
	return c.s.Names.Lookup(c.ctx, string(service))
}

// withdraw unpublishes a name, in the same way.
func (c *session) withdraw(service []byte) (removed bool, err error) {
	if len(service) > maxName {
		return false, nil
	}
	return c.s.Names.Unpublish(c.ctx, string(service))
}

func (c *session) unpublish() {
	if c.s.Names == nil {
		c.refuse("unpublish_result", "unsupported")
		return
	}
	removed, err := c.withdraw(c.args.text("service"))
	c.named("unpublish_result", "service_not_found", removed, err)
}

// lookup answers with the port as it was published, last on the line, for it may
// contain anything.
func (c *session) lookup() {
	if c.s.Names == nil {
		c.refuse("lookup_result", "unsupported")
		return
	}
	port, found, err := c.find(c.args.text("service"))
	if err != nil || !found {
		c.named("lookup_result", "service_not_found", false, err)
		return
	}
	c.say("cmd=lookup_result rc=0 port=" + port + "\n")
}

// named answers a request of the name service that brings no value. Clients take
// 1 for "no" and -1 for "failed".
func (c *session) named(answer, no string, yes bool, err error) {
	switch {
	case err != nil:
		c.s.note(c.rank, "name service: "+err.Error())
		c.refuse(answer, word(err))
	case !yes:
		c.say("cmd=" + answer + " rc=1 msg=" + no + "\n")
	default:
		c.say("cmd=" + answer + " rc=0 info=ok msg=success\n")
	}
}

func (c *session) publish2() {
	name, port := c.args.text("name"), c.args.text("port")
	switch {
	case c.s.Names == nil:
		c.refuse2(rcOther, "unsupported")
		return
	case len(port) == 0:
		c.refuse2(rcArgument, "missing_port")
		return
	}
	added, err := c.announce(name, port)
	c.named2("already_published", added, err)
}

func (c *session) unpublish2() {
	if c.s.Names == nil {
		c.refuse2(rcOther, "unsupported")
		return
	}
	removed, err := c.withdraw(c.args.text("name"))
	c.named2("not_found", removed, err)
}

// lookup2 answers with the port twice, for clients differ in where they look.
func (c *session) lookup2() {
	if c.s.Names == nil {
		c.refuse2(rcOther, "unsupported")
		return
	}
	port, found, err := c.find(c.args.text("name"))
	switch {
	case err != nil:
		c.named2("", false, err)
	case !found:
		c.open(1)
		c.say("found=FALSE;errmsg=not_found;")
		c.shut()
	default:
		c.open(0)
		c.say("found=TRUE;")
		c.with("port", []byte(port))
		c.with("value", []byte(port))
		c.shut()
	}
}

// named2 is named for PMI-2.
func (c *session) named2(no string, yes bool, err error) {
	switch {
	case err != nil:
		c.s.note(c.rank, "name service: "+err.Error())
		c.refuse2(rcOther, word(err))
	case !yes:
		c.refuse2(1, no)
	default:
		c.done()
	}
}
