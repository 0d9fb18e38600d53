//go:build linux

package uplink

import (
	"math"
	"sync"
	"time"

	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// Fetches carry direct gets: what ranks here want of those of other nodes, and what those want of
// them (PMIX-62). Nothing of it waits.
type Fetches struct {
	send  func(wire.Message) error
	flush func()

	mu      sync.Mutex // guards the rest
	last    int
	open    map[int]func([]byte, message.Status) // sent and not answered
	queue   []queuedFetch                        // in their order, as there is no room in open
	answers []*wire.Fetched                      // of ours to others, that are not sent yet
	sending bool                                 // somebody sends them
	err     error                                // nothing will ever be answered again
}

type queuedFetch struct {
	want   pmix.Want
	answer func([]byte, message.Status)
}

// maxFetches is how many direct gets of a node mpiexec takes at once (PMIX-63). Others wait here.
const maxFetches = 1 << 12

// NewFetches returns fetches that go to mpiexec by send; flush waits until that has been written.
func NewFetches(send func(wire.Message) error, flush func()) *Fetches {
	return &Fetches{send: send, flush: flush, open: make(map[int]func([]byte, message.Status))}
}

// Fetch is that of pmix.Fetcher.
func (f *Fetches) Fetch(w pmix.Want, answer func(data []byte, s message.Status)) {
	f.mu.Lock()
	over := f.err != nil
	if !over {
		f.queue = append(f.queue, queuedFetch{w, answer})
		f.next()
	}
	f.mu.Unlock()
	if over {
		answer(nil, message.Failed)
	}
}

// next sends what there is room for. Their numbers ascend as they are sent. It needs f.mu.
func (f *Fetches) next() {
	for len(f.queue) > 0 && len(f.open) < maxFetches {
		q := f.queue[0]
		f.queue[0] = queuedFetch{}
		if f.queue = f.queue[1:]; len(f.queue) == 0 {
			f.queue = nil
		}
		f.last++
		f.open[f.last] = q.answer
		seconds := min((q.want.Timeout+time.Second-1)/time.Second, math.MaxInt32)
		f.send(&wire.Fetch{ID: f.last, Group: q.want.Group, Rank: q.want.Rank, Key: q.want.Key, Patience: int(seconds)})
	}
}

// Deliver hands an answer to who waits for it.
func (f *Fetches) Deliver(m *wire.Fetched) {
	f.mu.Lock()
	answer := f.open[m.ID]
	delete(f.open, m.ID)
	if f.err == nil {
		f.next()
	}
	f.mu.Unlock()
	switch {
	case answer == nil:
	case m.Err != "":
		answer(nil, message.TooMuch)
	case m.Found:
		answer(m.Data, message.Success)
	default:
		answer(nil, message.NotFound)
	}
}

// Fail ends all that wait, now and later.
func (f *Fetches) Fail(err error) {
	f.mu.Lock()
	f.err = err
	open, queue := f.open, f.queue
	f.open, f.queue = make(map[int]func([]byte, message.Status)), nil
	f.mu.Unlock()
	for _, answer := range open {
		answer(nil, message.Failed)
	}
	for _, q := range queue {
		q.answer(nil, message.Failed)
	}
}

// Asked says that a rank of another node wants what one of this node has committed, and who supplies
// that. The answer goes to mpiexec when those before it have been written: many may want what is large,
// and it is kept once here.
func (f *Fetches) Asked(m *wire.Fetch, supply func(pmix.Want, func([]byte, message.Status))) {
	want := pmix.Want{Group: m.Group, Rank: m.Rank, Key: m.Key, Timeout: time.Duration(m.Patience) * time.Second}
	supply(want, func(data []byte, s message.Status) {
		answer := &wire.Fetched{ID: m.ID, Found: s == message.Success, Data: data}
		if s == message.TooMuch {
			answer.Err = "too many wait for this rank"
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answers = append(f.answers, answer)
		if !f.sending {
			f.sending = true
			go f.sendAnswers()
		}
	})
}

// batch is how many bytes of answers are sent before it is waited that they are written.
const batch = 1 << 20

// sendAnswers sends what there is to send, until there is nothing more.
func (f *Fetches) sendAnswers() {
	for sent := 0; ; {
		f.mu.Lock()
		if len(f.answers) == 0 {
			f.answers, f.sending = nil, false
			f.mu.Unlock()
			return
		}
		m := f.answers[0]
		f.answers[0] = nil
		f.answers = f.answers[1:]
		f.mu.Unlock()
		f.send(m)
		if sent += len(m.Data); sent > batch {
			f.flush()
			sent = 0
		}
	}
}
