//go:build linux

package rpc

import (
	"sync"

	"remshell/wire"
)

// A pipeline sends requests of one kind to mpiexec. A limited number is in flight at once; further ones wait in their
// order. Callers do not block. IDs ascend in the order of sending.
type pipeline[A any] struct {
	maxInFlight int
	send        func(wire.Message) error

	mu       sync.Mutex // guards the fields below
	last     int
	inFlight map[int]func(A) // by ID: sent and not answered
	queue    []queuedRequest[A]
	failed   bool // set by failAll; no request gets a reply any more
}

type queuedRequest[A any] struct {
	request func(id int) wire.Message
	onReply func(A)
}

// addRequest queues a request. It returns false after failAll; reply is not called then.
func (p *pipeline[A]) addRequest(newMessage func(id int) wire.Message, answer func(A)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed {
		return false
	}
	p.queue = append(p.queue, queuedRequest[A]{newMessage, answer})
	p.sendNext()
	return true
}

// sendNext sends queued requests up to the limit. The caller holds p.mu.
func (p *pipeline[A]) sendNext() {
	for len(p.queue) > 0 && len(p.inFlight) < p.maxInFlight {
		q := p.queue[0]
		p.queue[0] = queuedRequest[A]{}
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
		if p.inFlight == nil {
			p.inFlight = make(map[int]func(A))
		}
		p.last++
		p.inFlight[p.last] = q.onReply
		p.send(q.request(p.last))
	}
}

// deliverReply passes a reply to the request with this ID.
func (p *pipeline[A]) deliverReply(id int, a A) {
	p.mu.Lock()
	answer := p.inFlight[id]
	delete(p.inFlight, id)
	if !p.failed {
		p.sendNext()
	}
	p.mu.Unlock()
	if answer != nil {
		answer(a)
	}
}

// failAll answers all requests with a, and refuses later ones.
func (p *pipeline[A]) failAll(a A) {
	p.mu.Lock()
	p.failed = true
	open, queue := p.inFlight, p.queue
	p.inFlight, p.queue = nil, nil
	p.mu.Unlock()
	for _, answer := range open {
		answer(a)
	}
	for _, q := range queue {
		q.onReply(a)
	}
}
