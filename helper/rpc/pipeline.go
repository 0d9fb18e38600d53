//go:build linux

package rpc

import (
	"sync"

	"remshell/wire"
)

// A pipeline is questions of one kind to mpiexec, of which so many are under way at once; others wait in
// their order, and who asks does not. Their numbers ascend as they are sent.
type pipeline[A any] struct {
	maxInFlight int
	send        func(wire.Message) error

	mu       sync.Mutex // guards the rest
	last     int
	inFlight map[int]func(A) // sent and not answered
	queue    []queuedRequest[A]
	failed   bool // nothing will ever be answered again
}

type queuedRequest[A any] struct {
	request func(id int) wire.Message
	onReply func(A)
}

// addRequest asks; false: nobody answers any more.
func (p *pipeline[A]) addRequest(question func(id int) wire.Message, answer func(A)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed {
		return false
	}
	p.queue = append(p.queue, queuedRequest[A]{question, answer})
	p.sendNext()
	return true
}

// sendNext sends what there is room for. It needs p.mu.
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

// deliverReply hands an answer to who has asked.
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

// failAll answers all that wait, and takes no more.
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
