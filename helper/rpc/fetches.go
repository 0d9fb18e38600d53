//go:build linux

package rpc

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
	send     func(wire.Message) error
	flush    func()
	requests pipeline[*wire.Fetched]

	mu      sync.Mutex      // guards the rest
	replies []*wire.Fetched // of ours to others, that are not sent yet
	sending bool            // somebody sends them
}

// maxFetches is how many direct gets of a node mpiexec takes at once (PMIX-63). Others wait here.
const maxFetches = 1 << 12

// NewFetches returns fetches that go to mpiexec by send; flush waits until that has been written.
func NewFetches(send func(wire.Message) error, flush func()) *Fetches {
	return &Fetches{send: send, flush: flush, requests: pipeline[*wire.Fetched]{maxInFlight: maxFetches, send: send}}
}

// Fetch is that of pmix.Fetcher.
func (f *Fetches) Fetch(w pmix.FetchRequest, answer func(data []byte, s message.Status)) {
	seconds := min((w.Timeout+time.Second-1)/time.Second, math.MaxInt32)
	question := func(id int) wire.Message {
		return &wire.Fetch{ID: id, Group: w.Group, Rank: w.Rank, Key: w.Key, Timeout: int(seconds)}
	}
	taken := f.requests.addRequest(question, func(m *wire.Fetched) {
		switch {
		case m == nil:
			answer(nil, message.Failed)
		case m.Err != "":
			answer(nil, message.NoMemory)
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
func (f *Fetches) Deliver(m *wire.Fetched) { f.requests.deliverReply(m.ID, m) }

// Fail ends all that wait, now and later.
func (f *Fetches) Fail() { f.requests.failAll(nil) }

// ServeFetch says that a rank of another node wants what one of this node has committed, and who supplies
// that. The answer goes to mpiexec when those before it have been written: many may want what is large,
// and it is kept once here.
func (f *Fetches) ServeFetch(m *wire.Fetch, supply func(pmix.FetchRequest, func([]byte, message.Status))) {
	want := pmix.FetchRequest{Group: m.Group, Rank: m.Rank, Key: m.Key, Timeout: time.Duration(m.Timeout) * time.Second}
	supply(want, func(data []byte, s message.Status) {
		answer := &wire.Fetched{ID: m.ID, Found: s == message.Success, Data: data}
		if s == message.NoMemory {
			answer.Err = "too many wait for this rank"
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.replies = append(f.replies, answer)
		if !f.sending {
			f.sending = true
			go f.sendReplies()
		}
	})
}

// flushBytes is how many bytes of answers are sent before it is waited that they are written.
const flushBytes = 1 << 20

// sendReplies sends what there is to send, until there is nothing more.
func (f *Fetches) sendReplies() {
	for sent := 0; ; {
		f.mu.Lock()
		if len(f.replies) == 0 {
			f.replies, f.sending = nil, false
			f.mu.Unlock()
			return
		}
		m := f.replies[0]
		f.replies[0] = nil
		f.replies = f.replies[1:]
		f.mu.Unlock()
		f.send(m)
		if sent += len(m.Data); sent > flushBytes {
			f.flush()
			sent = 0
		}
	}
}
