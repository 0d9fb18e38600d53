//go:build linux

package rpc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"remshell/wire"
)

// A Pipeline sends requests to mpiexec and passes each reply, of type Rep, to the caller. Only a limited
// number of requests wait for replies at a time; further requests are queued. IDs ascend in the
// order in which requests are sent.
type Pipeline[Rep any] struct {
	maxInFlight int
	send        func(wire.Message) error

	mu       sync.Mutex // guards the fields below
	last     int
	inFlight map[int]func(Rep, error) // by ID: sent and not answered
	queue    []queuedRequest[Rep]
	failed   bool // set by Fail; no request gets a reply any more
}

type queuedRequest[Rep any] struct {
	ctx     context.Context
	request func(id int) wire.Message
	onReply func(Rep, error)
}

// NewPipeline returns a Pipeline. send sends a message to mpiexec. At most maxInFlight requests wait for
// replies at a time.
func NewPipeline[Rep any](maxInFlight int, send func(wire.Message) error) *Pipeline[Rep] {
	return &Pipeline[Rep]{maxInFlight: maxInFlight, send: send}
}

// errJobEnding is the error for all requests once the connection to mpiexec is over.
var errJobEnding = errors.New("the job is ending")

// Add queues a request. It does not block. newMessage builds the message from the ID of the request. onReply
// is called with the reply or with errJobEnding. If ctx ends while the request is queued, the request is not
// sent, and onReply might never be called.
func (p *Pipeline[Rep]) Add(ctx context.Context, newMessage func(id int) wire.Message, onReply func(Rep, error)) {
	p.mu.Lock()
	failed := p.failed
	if !failed {
		p.queue = append(p.queue, queuedRequest[Rep]{ctx, newMessage, onReply})
		p.sendNext()
	}
	p.mu.Unlock()
	if failed {
		var none Rep
		onReply(none, errJobEnding)
	}
}

// Call sends a request and waits for the reply. If ctx ends first, Call returns, and handleLate is called with the reply
// when it arrives. handleLate must not block; it may be nil.
func (p *Pipeline[Rep]) Call(ctx context.Context, newMessage func(id int) wire.Message, handleLate func(Rep)) (reply Rep, err error) {
	var decided atomic.Bool // whether this goroutine or late gets the reply
	replied := make(chan struct{})
	p.Add(ctx, newMessage, func(m Rep, failure error) {
		switch {
		case decided.CompareAndSwap(false, true):
			reply, err = m, failure
			close(replied)
		case handleLate != nil && failure == nil:
			handleLate(m)
		}
	})
	select {
	case <-replied:
	case <-ctx.Done():
		if decided.CompareAndSwap(false, true) {
			return reply, context.Cause(ctx)
		}
		<-replied
	}
	return reply, err
}

// sendNext sends queued requests until maxInFlight of them are unanswered. The caller must hold p.mu.
func (p *Pipeline[Rep]) sendNext() {
	for len(p.queue) > 0 && len(p.inFlight) < p.maxInFlight {
		q := p.queue[0]
		p.queue[0] = queuedRequest[Rep]{}
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
		if q.ctx.Err() != nil {
			continue
		}
		if p.inFlight == nil {
			p.inFlight = make(map[int]func(Rep, error))
		}
		p.last++
		p.inFlight[p.last] = q.onReply
		p.send(q.request(p.last))
	}
}

// Deliver passes a reply of mpiexec to the caller of the request that has this ID.
func (p *Pipeline[Rep]) Deliver(id int, reply Rep) {
	p.mu.Lock()
	onReply := p.inFlight[id]
	delete(p.inFlight, id)
	p.sendNext()
	p.mu.Unlock()
	if onReply != nil {
		onReply(reply, nil)
	}
}

// Fail makes all requests fail with errJobEnding, both those in progress and all later ones.
func (p *Pipeline[Rep]) Fail() {
	p.mu.Lock()
	p.failed = true
	open, queue := p.inFlight, p.queue
	p.inFlight, p.queue = nil, nil
	p.mu.Unlock()
	var none Rep
	for _, onReply := range open {
		onReply(none, errJobEnding)
	}
	for _, q := range queue {
		q.onReply(none, errJobEnding)
	}
}
