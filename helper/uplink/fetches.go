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
	under pipeline[*wire.Fetched]

	mu      sync.Mutex      // guards the rest
	answers []*wire.Fetched // of ours to others, that are not sent yet
	sending bool            // somebody sends them
}

// maxFetches is how many direct gets of a node mpiexec takes at once (PMIX-63). Others wait here.
const maxFetches = 1 << 12

// NewFetches returns fetches that go to mpiexec by send; flush waits until that has been written.
func NewFetches(send func(wire.Message) error, flush func()) *Fetches {
	return &Fetches{send: send, flush: flush, under: pipeline[*wire.Fetched]{most: maxFetches, send: send}}
}

// Fetch is that of pmix.Fetcher.
func (f *Fetches) Fetch(w pmix.Want, answer func(data []byte, s message.Status)) {
	seconds := min((w.Timeout+time.Second-1)/time.Second, math.MaxInt32)
	question := func(id int) wire.Message {
		return &wire.Fetch{ID: id, Group: w.Group, Rank: w.Rank, Key: w.Key, Patience: int(seconds)}
	}
	taken := f.under.put(question, func(m *wire.Fetched) {
		switch {
		case m == nil:
			answer(nil, message.Failed)
		case m.Err != "":
			answer(nil, message.TooMuch)
		case m.Found:
			answer(m.Data, message.Success)
		default:
			answer(nil, message.NotFound)
		}
	})
	if !taken {
		answer(nil, message.Failed)
	}
}

// Deliver hands an answer to who waits for it.
func (f *Fetches) Deliver(m *wire.Fetched) { f.under.deliver(m.ID, m) }

// Fail ends all that wait, now and later.
func (f *Fetches) Fail() { f.under.fail(nil) }

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
