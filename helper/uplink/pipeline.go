//go:build linux

package uplink

import (
	"sync"

	"remshell/wire"
)

// A pipeline is questions of one kind to mpiexec, of which so many are under way at once; others wait in
// their order, and who asks does not. Their numbers ascend as they are sent.
type pipeline[A any] struct {
	most int
	send func(wire.Message) error

	mu    sync.Mutex // guards the rest
	last  int
	open  map[int]func(A) // sent and not answered
	queue []queued[A]
	over  bool // nothing will ever be answered again
}

type queued[A any] struct {
	question func(id int) wire.Message
	answer   func(A)
}

// put asks; false: nobody answers any more.
func (p *pipeline[A]) put(question func(id int) wire.Message, answer func(A)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.queue = append(p.queue, queued[A]{question, answer})
	p.next()
	return true
}

// next sends what there is room for. It needs p.mu.
func (p *pipeline[A]) next() {
	for len(p.queue) > 0 && len(p.open) < p.most {
		q := p.queue[0]
		p.queue[0] = queued[A]{}
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
		if p.open == nil {
			p.open = make(map[int]func(A))
		}
		p.last++
		p.open[p.last] = q.answer
		p.send(q.question(p.last))
	}
}

// deliver hands an answer to who has asked.
func (p *pipeline[A]) deliver(id int, a A) {
	p.mu.Lock()
	answer := p.open[id]
	delete(p.open, id)
	if !p.over {
		p.next()
	}
	p.mu.Unlock()
	if answer != nil {
		answer(a)
	}
}

// fail answers all that wait, and takes no more.
func (p *pipeline[A]) fail(a A) {
	p.mu.Lock()
	p.over = true
	open, queue := p.open, p.queue
	p.open, p.queue = nil, nil
	p.mu.Unlock()
	for _, answer := range open {
		answer(a)
	}
	for _, q := range queue {
		q.answer(a)
	}
}
