//go:build linux

package uplink

import (
	"context"
	"errors"
	"strings"
	"sync"

	"remshell/pmiserver/pmix"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// Questions carry what this node's PMI servers ask of mpiexec there, and the answers back;
// fences have a way of their own (fences.go). They are numbered.
type Questions struct {
	send   func(wire.Message) error
	awaits awaits

	mu    sync.Mutex // guards the rest
	last  int
	open  map[int]chan wire.Message
	late  map[int]func(wire.Message) // who takes the answer to a question whose rank has gone
	under int                        // questions without an answer, also those whose rank has gone
	room  sync.Cond                  // for one more of maxOpen
	err   error                      // nothing will ever be answered again
}

// NewQuestions returns questions that go to mpiexec by send.
func NewQuestions(send func(wire.Message) error) *Questions {
	q := &Questions{send: send, open: make(map[int]chan wire.Message), late: make(map[int]func(wire.Message))}
	q.room.L = &q.mu
	return q
}

// maxOpen is how many questions of a node mpiexec takes at once (TRUST-4). Others wait here.
const maxOpen = 64

// ask puts a question, which question makes of its number, and waits for the answer.
func (q *Questions) ask(ctx context.Context, question func(id int) wire.Message) (wire.Message, error) {
	return q.askOr(ctx, question, nil)
}

// askOr is ask, where late takes an answer that comes when ctx has ended; it may not wait.
func (q *Questions) askOr(ctx context.Context, question func(id int) wire.Message, late func(wire.Message)) (wire.Message, error) {
	answer := make(chan wire.Message, 1)
	id, err := q.put(ctx, answer, question)
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m == nil {
			return nil, errLeaving
		}
		return m, nil
	case <-ctx.Done():
		if q.abandon(id, late) {
			return nil, context.Cause(ctx)
		}
		if m := <-answer; m != nil { // it has come meanwhile
			return m, nil
		}
		return nil, errLeaving
	}
}

// abandon leaves the answer to a question to somebody else; false: it is there already.
func (q *Questions) abandon(id int, late func(wire.Message)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[id] == nil {
		return false
	}
	delete(q.open, id)
	if late != nil {
		q.late[id] = late
	}
	return true
}

// put sends a question when there is room for it. Their numbers ascend as they are sent. Who has
// gone waits for no room: what crosses the end of the job is never answered.
func (q *Questions) put(ctx context.Context, answer chan wire.Message, question func(id int) wire.Message) (int, error) {
	defer context.AfterFunc(ctx, q.wake)()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.under >= maxOpen && q.err == nil && ctx.Err() == nil {
		q.room.Wait()
	}
	switch {
	case q.err != nil:
		return 0, q.err
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	q.last++
	q.under++
	q.open[q.last] = answer
	return q.last, q.send(question(q.last))
}

// errLeaving is the answer to all questions when mpiexec is gone.
var errLeaving = errors.New("the job is ending")

// errLarge is the answer to who asks for too much at once.
var errLarge = errors.New("request too large")

// errOther is a fault of mpiexec.
var errOther = errors.New("mpiexec answered something else")

// take closes a question, and returns who waits for the answer, or takes it in his place.
func (q *Questions) take(id int) (answer chan wire.Message, late func(wire.Message)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	answer, late = q.open[id], q.late[id]
	delete(q.open, id)
	delete(q.late, id)
	return answer, late
}

// wake lets all who wait for room look whether they still do.
func (q *Questions) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.room.Broadcast()
}

// Deliver hands an answer to who waits for it.
func (q *Questions) Deliver(id int, m wire.Message) {
	q.mu.Lock()
	q.under--
	q.mu.Unlock()
	q.room.Broadcast() // a Signal may go to one who leaves
	answer, late := q.take(id)
	switch {
	case answer != nil:
		answer <- m
	case late != nil:
		late(m)
	}
}

// Fail ends all questions, now and later.
func (q *Questions) Fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
	for id, answer := range q.open {
		delete(q.open, id)
		answer <- nil
	}
	q.room.Broadcast()
}

// Names is the table of published names as the PMI servers see it: it is in mpiexec.
type Names struct{ *Questions }

// Publish is that of pmiserver.Names.
func (n Names) Publish(ctx context.Context, service, port string) (added bool, err error) {
	m, err := n.name(ctx, &wire.Name{Op: wire.Publish, Service: service, Port: port})
	return m.Yes, err
}

// Lookup is that of pmiserver.Names.
func (n Names) Lookup(ctx context.Context, service string) (port string, found bool, err error) {
	m, err := n.name(ctx, &wire.Name{Op: wire.Lookup, Service: service})
	return m.Port, m.Yes, err
}

// Unpublish is that of pmiserver.Names.
func (n Names) Unpublish(ctx context.Context, service string) (removed bool, err error) {
	m, err := n.name(ctx, &wire.Name{Op: wire.Unpublish, Service: service})
	return m.Yes, err
}

// PMIxNames are Names as PMIx has them.
type PMIxNames struct{ Names }

// Publish is that of pmix.Names.
func (n PMIxNames) Publish(ctx context.Context, service string, what pmix.Name) (added bool, err error) {
	m, err := n.name(ctx, &wire.Name{Op: wire.Publish, Service: service, Port: what.Port, Value: what.Value, Once: what.Once})
	return m.Yes, err
}

// Lookup is that of pmix.Names.
func (n PMIxNames) Lookup(ctx context.Context, service string) (what pmix.Name, found bool, err error) {
	m, err := n.name(ctx, &wire.Name{Op: wire.Lookup, Service: service})
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.Once}, m.Yes, err
}

// Await is that of pmix.Names.
func (n PMIxNames) Await(ctx context.Context, service string) (pmix.Name, error) {
	m, err := n.Names.Await(ctx, service)
	return pmix.Name{Port: m.Port, Value: m.Value, Once: m.Once}, err
}

// Unpublish is that of pmix.Names.
func (n PMIxNames) Unpublish(ctx context.Context, service string) error {
	_, err := n.Names.Unpublish(ctx, service)
	return err
}

// name puts a request, which gets its number here.
func (n Names) name(ctx context.Context, request *wire.Name) (wire.Named, error) {
	m, err := n.askOr(ctx, func(id int) wire.Message {
		request.ID = id
		return request
	}, func(m wire.Message) { n.giveBack(request.Service, m) })
	named, ok := m.(*wire.Named)
	switch {
	case err != nil:
		return wire.Named{}, err
	case !ok:
		return wire.Named{}, errOther
	case named.Err != "":
		return wire.Named{}, errors.New(named.Err)
	}
	return *named, nil
}

// giveBack publishes again what nobody else can find any more, as the one who has asked for it has gone
// (PMIX-41). It does not wait.
func (n Names) giveBack(service string, found wire.Message) {
	if m, ok := found.(*wire.Named); ok && m.Yes && m.Once {
		go n.name(context.Background(), &wire.Name{Op: wire.Publish, Service: service, Port: m.Port, Value: m.Value, Once: true})
	}
}

// A Spawner starts more ranks as the PMI servers see it: mpiexec does. Directories are those
// of the ranks that ask.
type Spawner struct {
	*Questions
	Dir func(rank int) string
}

// Bounds of a request beside its size: what a rank says too much shall not end the job.
const (
	mostPairs = 1 << 12 // in one list
	mostFault = 1 << 10
)

// longest is the length of the longest list of a request, but for arguments.
func longest(r spawn.Request) int {
	most := max(len(r.Commands), len(r.Preputs))
	for _, c := range r.Commands {
		most = max(most, len(c.Info))
	}
	return most
}

// Spawn is that of spawn.Spawner.
func (p Spawner) Spawn(ctx context.Context, r spawn.Request) (group string, codes []int, err error) {
	fault := ""
	if err := withFiles(r.Commands, p.Dir(r.Rank)); err != nil {
		fault = strings.ToValidUTF8(err.Error(), "?")
		fault = strings.ToValidUTF8(fault[:min(len(fault), mostFault)], "")
	}
	if longest(r) > mostPairs || wire.TooLarge(&wire.Spawn{Request: r, Fault: fault}) {
		return "", nil, errLarge
	}
	m, err := p.ask(ctx, func(id int) wire.Message { return &wire.Spawn{ID: id, Request: r, Fault: fault} })
	answer, ok := m.(*wire.Spawned)
	switch {
	case err != nil:
		return "", nil, err
	case !ok:
		return "", nil, errOther
	case answer.Full:
		return "", nil, spawn.NoRoom(answer.Err)
	case answer.Err != "":
		return "", nil, errors.New(answer.Err)
	}
	return answer.Group, answer.Codes, nil
}

// Peers tells which ranks of a group are where: mpiexec knows, unless all are here.
func (q *Questions) Peers(ctx context.Context, m *wire.Prepare) (*wire.Peered, error) {
	if m.Group.Nodes == 1 {
		return &wire.Peered{Nodes: []string{m.Node.Name}, Of: make([]int, m.Group.Size), Earlier: []int{m.Node.Earlier}}, nil
	}
	return q.PeersOf(ctx, m.Group.Name)
}

// PeersOf is Peers for any group of the job; of one that is over there are none.
func (q *Questions) PeersOf(ctx context.Context, group string) (*wire.Peered, error) {
	answer, err := q.ask(ctx, func(id int) wire.Message { return &wire.Peers{ID: id, Group: group} })
	peered, ok := answer.(*wire.Peered)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errOther
	}
	return peered, nil
}
