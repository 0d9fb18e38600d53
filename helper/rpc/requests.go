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

// Requests carry what this node's PMI servers ask of mpiexec there, and the answers back;
// fences have a way of their own (fences.go). They are numbered.
type Requests struct {
	send      func(wire.Message) error
	nameWaits nameWaits

	mu        sync.Mutex // guards the rest
	last      int
	waiting   map[int]chan wire.Message
	abandoned map[int]func(wire.Message) // who takes the answer to a question whose rank has gone
	inFlight  int                        // questions without an answer, also those whose rank has gone
	slotFree  sync.Cond                  // for one more of maxOpen
	err       error                      // nothing will ever be answered again
}

// NewRequests returns questions that go to mpiexec by send.
func NewRequests(send func(wire.Message) error) *Requests {
	q := &Requests{send: send, waiting: make(map[int]chan wire.Message), abandoned: make(map[int]func(wire.Message))}
	q.slotFree.L = &q.mu
	return q
}

// maxRequests is how many questions of a node mpiexec takes at once (TRUST-4). Others wait here.
const maxRequests = 64

// request puts a question, which question makes of its number, and waits for the answer.
func (q *Requests) request(ctx context.Context, question func(id int) wire.Message) (wire.Message, error) {
	return q.requestOr(ctx, question, nil)
}

// requestOr is ask, where late takes an answer that comes when ctx has ended; it may not wait.
func (q *Requests) requestOr(ctx context.Context, question func(id int) wire.Message, late func(wire.Message)) (wire.Message, error) {
	answer := make(chan wire.Message, 1)
	id, err := q.sendRequest(ctx, answer, question)
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
		if m := <-answer; m != nil { // it has come meanwhile
			return m, nil
		}
		return nil, errJobEnding
	}
}

// abandon leaves the answer to a question to somebody else; false: it is there already.
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

// sendRequest sends a question when there is room for it. Their numbers ascend as they are sent. Who has
// gone waits for no room: what crosses the end of the job is never answered.
func (q *Requests) sendRequest(ctx context.Context, answer chan wire.Message, question func(id int) wire.Message) (int, error) {
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
	return q.last, q.send(question(q.last))
}

// errJobEnding is the answer to all questions when mpiexec is gone.
var errJobEnding = errors.New("the job is ending")

// errTooLarge is the answer to who asks for too much at once.
var errTooLarge = errors.New("request too large")

// errWrongReply is a fault of mpiexec.
var errWrongReply = errors.New("mpiexec answered something else")

// takeWaiting closes a question, and returns who waits for the answer, or takes it in his place.
func (q *Requests) takeWaiting(id int) (answer chan wire.Message, late func(wire.Message)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	answer, late = q.waiting[id], q.abandoned[id]
	delete(q.waiting, id)
	delete(q.abandoned, id)
	return answer, late
}

// wakeWaiting lets all who wait for room look whether they still do.
func (q *Requests) wakeWaiting() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slotFree.Broadcast()
}

// Deliver hands an answer to who waits for it.
func (q *Requests) Deliver(id int, m wire.Message) {
	q.mu.Lock()
	q.inFlight--
	q.mu.Unlock()
	q.slotFree.Broadcast() // a Signal may go to one who leaves
	answer, late := q.takeWaiting(id)
	switch {
	case answer != nil:
		answer <- m
	case late != nil:
		late(m)
	}
}

// Fail ends all questions, now and later.
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

// Names is the table of published names as the PMI servers see it: it is in mpiexec.
type Names struct{ *Requests }

// Publish is that of pmiserver.Names.
func (n Names) Publish(ctx context.Context, service, port string) (added bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Publish, Service: service, Port: port})
	return m.OK, err
}

// Lookup is that of pmiserver.Names.
func (n Names) Lookup(ctx context.Context, service string) (port string, found bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Lookup, Service: service})
	return m.Port, m.OK, err
}

// Unpublish is that of pmiserver.Names.
func (n Names) Unpublish(ctx context.Context, service string) (removed bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Unpublish, Service: service})
	return m.OK, err
}

// PMIxNames are Names as PMIx has them.
type PMIxNames struct{ Names }

// Publish is that of pmix.Names.
func (n PMIxNames) Publish(ctx context.Context, service string, what pmix.Name) (added bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Publish, Service: service, Port: what.Port, Value: what.Value, FirstReadOnly: what.Once})
	return m.OK, err
}

// Lookup is that of pmix.Names.
func (n PMIxNames) Lookup(ctx context.Context, service string) (what pmix.Name, found bool, err error) {
	m, err := n.requestName(ctx, &wire.NameRequest{Op: wire.Lookup, Service: service})
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly}, m.OK, err
}

// Await is that of pmix.Names.
func (n PMIxNames) Await(ctx context.Context, service string) (pmix.Name, error) {
	m, err := n.Names.Await(ctx, service)
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly}, err
}

// Unpublish is that of pmix.Names.
func (n PMIxNames) Unpublish(ctx context.Context, service string) error {
	_, err := n.Names.Unpublish(ctx, service)
	return err
}

// requestName puts a request, which gets its number here.
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

// republish publishes again what nobody else can find any more, as the one who has asked for it has gone
// (PMIX-41). It does not wait.
func (n Names) republish(service string, found wire.Message) {
	if m, ok := found.(*wire.NameReply); ok && m.OK && m.FirstReadOnly {
		go n.requestName(context.Background(), &wire.NameRequest{Op: wire.Publish, Service: service, Port: m.Port, Value: m.Value, FirstReadOnly: true})
	}
}

// A Spawner starts more ranks as the PMI servers see it: mpiexec does. Directories are those
// of the ranks that ask.
type Spawner struct {
	*Requests
	Dir func(rank int) string
}

// Bounds of a request beside its size: what a rank says too much shall not end the job.
const (
	maxPairs      = 1 << 12 // in one list
	maxFaultBytes = 1 << 10
)

// longestList is the length of the longest list of a request, but for arguments.
func longestList(r spawn.Request) int {
	most := max(len(r.Commands), len(r.Preputs))
	for _, c := range r.Commands {
		most = max(most, len(c.Info))
	}
	return most
}

// Spawn is that of spawn.Spawner.
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

// Peers tells which ranks of a group are where: mpiexec knows, unless all are here.
func (q *Requests) Peers(ctx context.Context, m *wire.Prepare) (*wire.RankMap, error) {
	if m.Group.NodeCount == 1 {
		return &wire.RankMap{Nodes: []string{m.Node.Name}, NodeOfRank: make([]int, m.Group.Size), EarlierRanks: []int{m.Node.EarlierRanks}}, nil
	}
	return q.PeersOfGroup(ctx, m.Group.Name)
}

// PeersOfGroup is Peers for any group of the job; of one that is over there are none.
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
