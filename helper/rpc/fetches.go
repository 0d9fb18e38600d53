//go:build linux

package rpc

import (
	"context"
	"math"
	"sync"
	"time"

	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// Fetches carries direct gets: data that ranks here want of ranks on other nodes, and the reverse (PMIX-62). Its
// methods do not block.
type Fetches struct {
	Pipeline[*wire.Fetched]
	flush func()

	repliesMu sync.Mutex      // guards the fields below
	replies   []*wire.Fetched // replies to other nodes that are not sent yet
	sending   bool            // a goroutine is sending them
}

// maxFetches is how many direct gets of a node mpiexec handles at once (PMIX-63). Further ones wait here.
const maxFetches = 1 << 12

// NewFetches returns Fetches that send messages to mpiexec by send. flush waits until all sent messages are written.
func NewFetches(send func(wire.Message) error, flush func()) *Fetches {
	return &Fetches{Pipeline: Pipeline[*wire.Fetched]{maxInFlight: maxFetches, send: send}, flush: flush}
}

// Fetch implements pmix.Fetcher.
func (f *Fetches) Fetch(w pmix.FetchRequest, answer func(data []byte, s message.Status)) {
	seconds := min((w.Timeout+time.Second-1)/time.Second, math.MaxInt32)
	newMessage := func(id int) wire.Message {
		return &wire.Fetch{ID: id, Group: w.Group, Rank: w.Rank, Key: w.Key, Timeout: int(seconds)}
	}
	f.Add(context.Background(), newMessage, func(m *wire.Fetched, err error) {
		switch {
		case err != nil:
			answer(nil, message.Failed)
		case m.Err != "":
			answer(nil, message.NoMemory)
		case m.Found:
			answer(m.Data, message.Success)
		default:
			answer(nil, message.NotFound)
		}
	})
}

// Deliver passes a reply to the get that waits for it.
func (f *Fetches) Deliver(m *wire.Fetched) { f.Pipeline.Deliver(m.ID, m) }

// ServeFetch answers a get by a rank of another node. supply finds the data that a rank here has committed. Replies
// are sent one after another, each when those before it are written, so that large data is kept in memory only once.
func (f *Fetches) ServeFetch(m *wire.Fetch, supply func(pmix.FetchRequest, func([]byte, message.Status))) {
	want := pmix.FetchRequest{Group: m.Group, Rank: m.Rank, Key: m.Key, Timeout: time.Duration(m.Timeout) * time.Second}
	supply(want, func(data []byte, s message.Status) {
		answer := &wire.Fetched{ID: m.ID, Found: s == message.Success, Data: data}
		if s == message.NoMemory {
			answer.Err = "too many wait for this rank"
		}
		f.repliesMu.Lock()
		defer f.repliesMu.Unlock()
		f.replies = append(f.replies, answer)
		if !f.sending {
			f.sending = true
			go f.sendReplies()
		}
	})
}

// flushBytes is how many bytes of replies are sent before it waits until they are written.
const flushBytes = 1 << 20

// sendReplies sends replies until there are none left.
func (f *Fetches) sendReplies() {
	for sent := 0; ; {
		f.repliesMu.Lock()
		if len(f.replies) == 0 {
			f.replies, f.sending = nil, false
			f.repliesMu.Unlock()
			return
		}
		m := f.replies[0]
		f.replies[0] = nil
		f.replies = f.replies[1:]
		f.repliesMu.Unlock()
		f.send(m)
		if sent += len(m.Data); sent > flushBytes {
			f.flush()
			sent = 0
		}
	}
}
