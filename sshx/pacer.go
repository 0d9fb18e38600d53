package sshx

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"
)

// A Pacer keeps a fan-out from overrunning servers, whichever way it goes: it alone says how
// many connections of a run are being set up at once (cli.md SSH-7). OpenSSH's
// default MaxStartups 10:30:100 drops a growing share of the connections that
// have not logged in, above the tenth.
//
//	Enter ... connect, key exchange, login ... Leave(outcome)
//
// A server that drops one gets half as many at once from then on, and one more
// again after as many logins as it has places. Who waits goes in the order of arrival, past
// those whose server has no room. The zero value is ready to use, and may be shared.
type Pacer struct {
	Fanout    int // connections in set-up at once; 0: 64
	PerServer int // of these to one server or through one jump host; 0: 8

	mu       sync.Mutex // guards what follows
	busy     int
	arrivals int // how many have entered
	servers  map[string]*pacedServer
	ready    serverQueue // servers that somebody waits for and that have room
}

const (
	defaultFanout    = 64
	defaultPerServer = 8
)

// UnknownServer is the server of who cannot see where a connection goes. There may be many
// behind it, so it has the whole fan-out until one is dropped.
const UnknownServer = ""

// An Outcome is how a set-up ended, as far as it tells about the server.
type Outcome int

const (
	LoggedIn   Outcome = iota
	Dropped            // closed before the login: too many at once
	OwnFailure         // failed for reasons of its own
	Dead               // no answer at all: the same will happen to those who wait
)

type pacedServer struct {
	maxOpen, limit, busy int
	logins               int       // logins since the limit last changed
	halved               int       // how often the limit was halved
	waiting              []*Permit // in the order of arrival
	isReady              bool      // among those that are ready
	firstArrival         int       // who waited first when it was listed, by arrival
}

func (s *pacedServer) isWanted() bool { return s.busy < s.limit && len(s.waiting) > 0 }

// serverQueue is a heap of servers: the one that was waited for first is on top.
type serverQueue []*pacedServer

func (q serverQueue) Len() int           { return len(q) }
func (q serverQueue) Less(i, j int) bool { return q[i].firstArrival < q[j].firstArrival }
func (q serverQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *serverQueue) Push(s any)        { *q = append(*q, s.(*pacedServer)) }
func (q *serverQueue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}

// A Permit is the right to have one connection in set-up.
type Permit struct {
	p      *Pacer
	server *pacedServer
	number int           // in the order of arrival
	limit  int           // of the server, when the pass was given out
	halved int           // the server's count then
	ready  chan struct{} // closed when it is given out, or err is set
	err    error
}

// IsCrowded reports whether more were let in together than any one server is sure to bear: a
// drop tells about the crowd then, and not about this attempt.
func (w *Permit) IsCrowded() bool { return w.limit > w.p.perServer() }

// Acquire waits for a place toward a server, which any string may name. The
// error is the context's, or the one with which another connection has found
// the server dead meanwhile.
func (p *Pacer) Acquire(ctx context.Context, server string) (*Permit, error) {
	w := &Permit{p: p, ready: make(chan struct{})}
	p.mu.Lock()
	p.arrivals++
	w.number, w.server = p.arrivals, p.server(server)
	w.server.waiting = append(w.server.waiting, w)
	p.grantPermits(w.server)
	p.mu.Unlock()
	select {
	case <-w.ready:
		return w, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(w.server.waiting, w)
	if i >= 0 {
		w.server.waiting = slices.Delete(w.server.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 && w.err == nil { // let in at that very moment
		w.Release(OwnFailure, nil)
	}
	return nil, context.Cause(ctx)
}

// grantPermits lets in whoever has a place, now that something has changed for a server; p.mu is held.
func (p *Pacer) grantPermits(changed *pacedServer) {
	p.markReady(changed)
	for len(p.ready) > 0 && p.busy < p.fanout() {
		s := heap.Pop(&p.ready).(*pacedServer)
		s.isReady = false
		if !s.isWanted() { // any more
			continue
		}
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		p.busy++
		s.busy++
		w.limit, w.halved = s.limit, s.halved
		close(w.ready)
		p.markReady(s)
	}
}

// markReady notes that a server is ready, if it is; p.mu is held.
func (p *Pacer) markReady(s *pacedServer) {
	if s.isWanted() && !s.isReady {
		s.isReady, s.firstArrival = true, s.waiting[0].number
		heap.Push(&p.ready, s)
	}
}

func (p *Pacer) server(name string) *pacedServer {
	s := p.servers[name]
	if s == nil {
		s = &pacedServer{maxOpen: p.perServer()}
		if name == UnknownServer {
			s.maxOpen = p.fanout()
		}
		s.limit = s.maxOpen
		if p.servers == nil {
			p.servers = map[string]*pacedServer{}
		}
		p.servers[name] = s
	}
	return s
}

func (p *Pacer) fanout() int {
	if p.Fanout > 0 {
		return p.Fanout
	}
	return defaultFanout
}

func (p *Pacer) perServer() int {
	if p.PerServer > 0 {
		return p.PerServer
	}
	return defaultPerServer
}

// Release gives the place back. With Dead, err is what those get who still wait
// for the same server.
func (w *Permit) Release(o Outcome, err error) {
	p, s := w.p, w.server
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	s.busy--
	switch o {
	case LoggedIn:
		if s.logins++; s.logins >= s.limit && s.limit < s.maxOpen {
			s.limit, s.logins = s.limit+1, 0
		}
	case Dropped:
		// Of a burst that was let in together, the first drop says it all.
		if w.halved == s.halved {
			s.limit, s.logins = max(1, s.limit/2), 0
			s.halved++
		}
	case Dead:
		for _, q := range s.waiting {
			q.err = err
			close(q.ready)
		}
		s.waiting = nil
	}
	p.grantPermits(s)
}

// Backoff is how long to wait before attempt n+1, n counting from 1: 0.2, 0.5,
// 1, 2, 2, ... seconds, each stretched or shortened by up to a quarter so that
// those dropped together do not come back together. An attempt that does not count is n = 0,
// and waits as the first one does. random is from 0 to 1.
func Backoff(n int, random float64) time.Duration {
	steps := []time.Duration{200, 500, 1000, 2000}
	d := steps[min(max(n, 1), len(steps))-1] * time.Millisecond
	return time.Duration(float64(d) * (0.75 + random/2))
}
