//go:build linux

package rpc

import (
	"context"
	"errors"
	"strings"
	"sync"

	"remshell/pmiserver/pmix"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// Requests sends requests of this node's PMI servers to mpiexec, and waits for the replies. Each has an ID. Fences are
// not among them (fences.go).
type Requests struct {
	send      func(wire.Message) error
	nameWaits nameWaits

	mu        sync.Mutex // guards the fields below
	last      int
	waiting   map[int]chan wire.Message
	abandoned map[int]func(wire.Message) // by ID: handle the reply to a request whose rank has gone
	inFlight  int                        // number of requests without a reply, also of ranks that have gone
	slotFree  sync.Cond                  // signals that inFlight is below maxRequests
	err       error                      // set by Fail; no request gets a reply any more
}

// NewRequests returns Requests that send messages to mpiexec by send.
func NewRequests(send func(wire.Message) error) *Requests {
	q := &Requests{send: send, waiting: make(map[int]chan wire.Message), abandoned: make(map[int]func(wire.Message))}
	q.slotFree.L = &q.mu
	return q
}

// maxRequests is how many requests of a node mpiexec handles at once (TRUST-4). Further ones wait here.
const maxRequests = 64

// request sends the message that newMessage makes of its ID, and waits for the reply.
func (q *Requests) request(ctx context.Context, newMessage func(id int) wire.Message) (wire.Message, error) {
	return q.requestOr(ctx, newMessage, nil)
}

// requestOr is request; if ctx ends before the reply comes, late gets the reply. late must not block.
func (q *Requests) requestOr(ctx context.Context, newMessage func(id int) wire.Message, late func(wire.Message)) (wire.Message, error) {
	answer := make(chan wire.Message, 1)
	id, err := q.sendRequest(ctx, answer, newMessage)
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m == nil {
			return nil, errJobEnding
		}
		return m, nil
	case <-ctx.Done():
		if q.abandon(id, late) {
			return nil, context.Cause(ctx)
		}
		if m := <-answer; m != nil { // the reply has come meanwhile
			return m, nil
		}
		return nil, errJobEnding
	}
}

// abandon gives the reply to late instead. It returns false if the reply is there already.
func (q *Requests) abandon(id int, late func(wire.Message)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[id] == nil {
		return false
	}
	delete(q.waiting, id)
	if late != nil {
		q.abandoned[id] = late
	}
	return true
}

// sendRequest sends a request when fewer than maxRequests are in flight. IDs ascend in the order of sending. It
// returns an error at once if ctx ends.
func (q *Requests) sendRequest(ctx context.Context, answer chan wire.Message, newMessage func(id int) wire.Message) (int, error) {
	defer context.AfterFunc(ctx, q.wakeWaiting)()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.inFlight >= maxRequests && q.err == nil && ctx.Err() == nil {
		q.slotFree.Wait()
	}
	switch {
	case q.err != nil:
		return 0, q.err
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	q.last++
	q.inFlight++
	q.waiting[q.last] = answer
	return q.last, q.send(newMessage(q.last))
}

// errJobEnding is the error of all requests once mpiexec is gone.
var errJobEnding = errors.New("the job is ending")

// errTooLarge is returned for a request that exceeds a bound.
var errTooLarge = errors.New("request too large")

// errWrongReply is returned if mpiexec sends a reply of the wrong type.
var errWrongReply = errors.New("mpiexec answered something else")

// takeWaiting removes a request and returns the channel that waits for its reply, or the function that handles it
// instead.
func (q *Requests) takeWaiting(id int) (answer chan wire.Message, late func(wire.Message)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	answer, late = q.waiting[id], q.abandoned[id]
	delete(q.waiting, id)
	delete(q.abandoned, id)
	return answer, late
}

// wakeWaiting wakes all that wait to send, to check whether their ctx has ended.
func (q *Requests) wakeWaiting() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slotFree.Broadcast()
}

// Deliver passes the reply to request id to the goroutine that waits for it.
func (q *Requests) Deliver(id int, m wire.Message) {
	q.mu.Lock()
	q.inFlight--
	q.mu.Unlock()
	q.slotFree.Broadcast() // not Signal: it may wake a goroutine whose ctx has ended
	answer, late := q.takeWaiting(id)
	switch {
	case answer != nil:
		answer <- m
	case late != nil:
		late(m)
	}
}

// Fail ends all requests with err, now and later.
func (q *Requests) Fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
	for id, answer := range q.waiting {
		delete(q.waiting, id)
		answer <- nil
	}
	q.slotFree.Broadcast()
}

// Names is the table of published names, which mpiexec keeps. It implements pmiserver.Names.
type Names struct{ *Requests }

// Publish implements pmiserver.Names.
func (n Names) Publish(ctx context.Context, service, port string) (added bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Publish, Service: service, Port: port})
	return m.OK, err
}

// Lookup implements pmiserver.Names.
func (n Names) Lookup(ctx context.Context, service string) (port string, found bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Lookup, Service: service})
	return m.Port, m.OK, err
}

// Unpublish implements pmiserver.Names.
func (n Names) Unpublish(ctx context.Context, service string) (removed bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Unpublish, Service: service})
	return m.OK, err
}

// PMIxNames is Names for PMIx. It implements pmix.Names.
type PMIxNames struct{ Names }

// Publish implements pmix.Names.
func (n PMIxNames) Publish(ctx context.Context, service string, what pmix.Name) (added bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Publish, Service: service, Port: what.Port, Value: what.Value, FirstReadOnly: what.Once})
	return m.OK, err
}

// Lookup implements pmix.Names.
func (n PMIxNames) Lookup(ctx context.Context, service string) (what pmix.Name, found bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Lookup, Service: service})
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly}, m.OK, err
}

// Await implements pmix.Names.
func (n PMIxNames) Await(ctx context.Context, service string) (pmix.Name, error) {
	m, err := n.Names.Await(ctx, service)
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly}, err
}

// Unpublish implements pmix.Names.
func (n PMIxNames) Unpublish(ctx context.Context, service string) error {
	_, err := n.Names.Unpublish(ctx, service)
	return err
}

// requestName sends a request and waits for the reply. It sets the request's ID.
func (n Names) requestName(ctx context.Context, request *wire.NameRequest) (wire.NameReply, error) {
	m, err := n.requestOr(ctx, func(id int) wire.Message {
		request.ID = id
		return request
	}, func(m wire.Message) { n.republish(request.Service, m) })
	named, ok := m.(*wire.NameReply)
	switch {
	case err != nil:
		return wire.NameReply{}, err
	case !ok:
		return wire.NameReply{}, errWrongReply
	case named.Err != "":
		return wire.NameReply{}, errors.New(named.Err)
	}
	return *named, nil
}

// republish publishes a name again that a lookup has removed from the table, if the rank that looked it up has gone
// (PMIX-41). It does not wait.
func (n Names) republish(service string, found wire.Message) {
	if m, ok := found.(*wire.NameReply); ok && m.OK && m.FirstReadOnly {
		go n.requestName(context.Background(), &wire.NameRequest{Op: wire.Publish, Service: service, Port: m.Port, Value: m.Value, FirstReadOnly: true})
	}
}

// A Spawner asks mpiexec to start more ranks. Dir returns the working directory of the rank that asks.
type Spawner struct {
	*Requests
	Dir func(rank int) string
}

// Bounds of a request besides its size. A larger request fails, and does not end the job.
const (
	maxPairs      = 1 << 12 // in one list
	maxFaultBytes = 1 << 10
)

// longestList returns the length of the longest list in a request, apart from arguments.
func longestList(r spawn.Request) int {
	most := max(len(r.Commands), len(r.Preputs))
	for _, c := range r.Commands {
		most = max(most, len(c.Info))
	}
	return most
}

// Spawn implements spawn.Spawner.
func (p Spawner) Spawn(ctx context.Context, r spawn.Request) (group string, codes []int, err error) {
	fault := ""
	if err := expandFiles(r.Commands, p.Dir(r.Rank)); err != nil {
		fault = strings.ToValidUTF8(err.Error(), "?")
		fault = strings.ToValidUTF8(fault[:min(len(fault), maxFaultBytes)], "")
	}
	if longestList(r) > maxPairs || wire.TooLarge(&wire.Spawn{Request: r, Fault: fault}) {
		return "", nil, errTooLarge
	}
	m, err := p.request(ctx, func(id int) wire.Message { return &wire.Spawn{ID: id, Request: r, Fault: fault} })
	answer, ok := m.(*wire.Spawned)
	switch {
	case err != nil:
		return "", nil, err
	case !ok:
		return "", nil, errWrongReply
	case answer.Full:
		return "", nil, spawn.NoSlots(answer.Err)
	case answer.Err != "":
		return "", nil, errors.New(answer.Err)
	}
	return answer.Group, answer.Codes, nil
}

// Peers returns where the ranks of a group are. It asks mpiexec, unless all are on this node.
func (q *Requests) Peers(ctx context.Context, m *wire.Prepare) (*wire.RankMap, error) {
	if m.Group.NodeCount == 1 {
		return &wire.RankMap{Nodes: []string{m.Node.Name}, NodeOfRank: make([]int, m.Group.Size), EarlierRanks: []int{m.Node.EarlierRanks}}, nil
	}
	return q.PeersOfGroup(ctx, m.Group.Name)
}

// PeersOfGroup is Peers for any group of the job. It returns an empty map for a group that is over.
func (q *Requests) PeersOfGroup(ctx context.Context, group string) (*wire.RankMap, error) {
	answer, err := q.request(ctx, func(id int) wire.Message { return &wire.RankMapRequest{ID: id, Group: group} })
	peered, ok := answer.(*wire.RankMap)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errWrongReply
	}
	return peered, nil
}
