//go:build linux

package names

import (
	"context"
	"errors"

	"remshell/helper"
	"remshell/helper/rpc"
	"remshell/pmiserver/pmix"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "names", Attach: attachHelper}) }

// attachHelper makes the PMI servers of this node send requests about names to mpiexec.
func attachHelper(s *helper.Session) {
	q := &requests{Requests: s.Requests()}
	helper.Handle(s, func(m *NameReply) { q.Deliver(m.ID, m) })
	helper.Handle(s, func(m *NamePublished) { q.waits.namePublished(m.Service) })
	s.Providers.Names, s.Providers.PMIxNames = pmiNames{q}, pmixNames{q}
	s.Hooks.JobBegins.Add(func(m *wire.Prepare) { _, s.Providers.SharesNames = wire.SettingOf[*Scope](m.Settings) })
	attachHolder(s)
}

// requests sends requests about names to mpiexec. Both pmiNames, for ranks that use PMI, and pmixNames, for
// ranks that use PMIx, contain a pointer to the same requests.
type requests struct {
	*rpc.Requests
	waits waits
}

// ask sends a request, waits for the reply and returns it. It sets the ID of the request.
func (q *requests) ask(ctx context.Context, request *NameRequest) (NameReply, error) {
	named, err := rpc.Call(ctx, q.Requests, func(id int) *NameRequest {
		request.ID = id
		return request
	}, func(late *NameReply) { q.republish(request.Service, late) })
	switch {
	case err != nil:
		return NameReply{}, err
	case named.Err != "":
		return NameReply{}, errors.New(named.Err)
	}
	return *named, nil
}

// republish restores a name that a lookup has removed. It is called if the rank that looked up the name ended before
// it received the reply (rule PMIX-41). It does not wait for a reply.
func (q *requests) republish(service string, m *NameReply) {
	if m.OK && m.FirstReadOnly {
		go q.ask(context.Background(), &NameRequest{Op: Publish, Service: service, Port: m.Port, Value: m.Value, FirstReadOnly: true})
	}
}

// await looks up a name, waits until the name is published, and returns the reply (rule PMIX-40). A name with
// FirstReadOnly may be gone again, because another rank has looked it up first. Then await continues to wait. Before
// each lookup it registers in q.waits, so that it misses no publication.
func (q *requests) await(ctx context.Context, service string) (NameReply, error) {
	for {
		w := q.waits.joinName(service)
		found, err := q.ask(ctx, &NameRequest{Op: LookupWait, Service: service})
		if err == nil && !found.OK {
			select {
			case <-w.published:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		q.waits.leaveName(service, w)
		if err != nil || found.OK {
			return found, err
		}
	}
}

// pmiNames is the table of names for ranks that use PMI. It implements pmiserver.Names.
type pmiNames struct{ *requests }

// Publish implements pmiserver.Names: it publishes a port under a service name in mpiexec's table. added is false if
// the name is already published.
func (n pmiNames) Publish(ctx context.Context, service, port string) (added bool, err error) {
	m, err := n.ask(ctx, &NameRequest{Op: Publish, Service: service, Port: port})
	return m.OK, err
}

// Lookup implements pmiserver.Names: it looks up the port of a service name in mpiexec's table. found is false if the
// name is not published.
func (n pmiNames) Lookup(ctx context.Context, service string) (port string, found bool, err error) {
	m, err := n.ask(ctx, &NameRequest{Op: Lookup, Service: service})
	return m.Port, m.OK, err
}

// Unpublish implements pmiserver.Names: it removes a service name from mpiexec's table. removed is false if the name
// was not published.
func (n pmiNames) Unpublish(ctx context.Context, service string) (removed bool, err error) {
	m, err := n.ask(ctx, &NameRequest{Op: Unpublish, Service: service})
	return m.OK, err
}

// pmixNames is the table of names for ranks that use PMIx. It implements pmix.Names.
type pmixNames struct{ *requests }

// Publish implements pmix.Names: it publishes a value under a name in mpiexec's table. added is false if the name is
// already published.
func (n pmixNames) Publish(ctx context.Context, service string, value pmix.Name) (added bool, err error) {
	m, err := n.ask(ctx, &NameRequest{Op: Publish, Service: service, Port: value.Port, Value: value.Value, FirstReadOnly: value.Once})
	return m.OK, err
}

// Lookup implements pmix.Names: it looks up the value of a name in mpiexec's table. found is false if the name is not
// published.
func (n pmixNames) Lookup(ctx context.Context, service string) (value pmix.Name, found bool, err error) {
	m, err := n.ask(ctx, &NameRequest{Op: Lookup, Service: service})
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly}, m.OK, err
}

// Await implements pmix.Names: it waits until a name is published, and returns its value.
func (n pmixNames) Await(ctx context.Context, service string) (pmix.Name, error) {
	m, err := n.await(ctx, service)
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly}, err
}

// Unpublish implements pmix.Names: it removes a name from mpiexec's table.
func (n pmixNames) Unpublish(ctx context.Context, service string) error {
	_, err := n.ask(ctx, &NameRequest{Op: Unpublish, Service: service})
	return err
}
