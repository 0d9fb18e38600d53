//go:build linux

package fetches

import (
	"context"
	"math"
	"sync"
	"time"

	"remshell/helper"
	"remshell/helper/rpc"
	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "fetches", Attach: attachHelper}) }

// attachHelper makes the PMI servers of this node send requests for data of other ranks to mpiexec, as Fetch messages.
// The session also replies to such requests from ranks on other nodes.
func attachHelper(s *helper.Session) {
	f := newFetcher(s.Send, s.Flush)
	helper.Handle(s, func(m *Fetched) { f.Deliver(m.ID, m) })
	helper.Handle(s, func(m *Fetch) {
		supply := func(_ pmix.FetchRequest, answer func([]byte, message.Status)) { answer(nil, message.NotFound) }
		if server := s.PMIxServer(); server != nil {
			supply = server.ServeFetch
		}
		f.serveFetch(m, supply)
	})
	s.Hooks.RequestsEnd.Add(f.Fail)
	s.Providers.Fetcher = f
}

// A fetcher sends Fetch messages for ranks on this node that need data of ranks on other nodes. It also
// replies to the Fetch messages of ranks on other nodes. Its methods do not block. It implements
// pmix.Fetcher.
type fetcher struct {
	*rpc.Pipeline[*Fetched]
	send  func(wire.Message) error
	flush func() // waits until all sent messages are written

	mu      sync.Mutex // guards the fields below
	replies []*Fetched // replies to other nodes that are not sent yet
	sending bool       // a goroutine is sending them
}

func newFetcher(send func(wire.Message) error, flush func()) *fetcher {
	return &fetcher{Pipeline: rpc.NewPipeline[*Fetched](maxUnanswered, send), send: send, flush: flush}
}

// Fetch implements pmix.Fetcher: it requests data that a rank on another node has committed. It calls answer with the
// data or, after an error, with nil and the status.
func (f *fetcher) Fetch(w pmix.FetchRequest, answer func(data []byte, s message.Status)) {
	seconds := min((w.Timeout+time.Second-1)/time.Second, math.MaxInt32)
	newMessage := func(id int) wire.Message {
		return &Fetch{ID: id, Group: w.Group, Rank: w.Rank, Key: w.Key, Timeout: int(seconds)}
	}
	f.Add(context.Background(), newMessage, func(m *Fetched, err error) {
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

// serveFetch replies to a request for data by a rank of another node. findData finds the data that a rank on this
// node has committed. Replies are sent one after another, and the data is copied into a message only when it is sent.
// So there are never many copies of large data.
func (f *fetcher) serveFetch(m *Fetch, findData func(pmix.FetchRequest, func([]byte, message.Status))) {
	want := pmix.FetchRequest{Group: m.Group, Rank: m.Rank, Key: m.Key, Timeout: time.Duration(m.Timeout) * time.Second}
	findData(want, func(data []byte, s message.Status) {
		answer := &Fetched{ID: m.ID, Found: s == message.Success, Data: data}
		if s == message.NoMemory {
			answer.Err = "too many ranks wait for data of this rank"
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

// flushBytes is how many bytes of replies the fetcher sends before it waits until they are written.
const flushBytes = 1 << 20

// sendReplies sends replies until there are none left.
func (f *fetcher) sendReplies() {
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
