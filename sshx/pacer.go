package sshx

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"
)

// A Pacer limits how many connections to a server are set up at the same time, so that servers do not drop
// connections (cli.md SSH-7). All transports use a Pacer. With OpenSSH's default MaxStartups 10:30:100, a
// server that has ten connections without a login drops a growing share of new connections.
//
//	Acquire ... connect, key exchange, login ... Release(outcome)
//
// When a server drops a connection, the limit for this server is halved. When as many logins as the limit have
// succeeded, the limit grows by one. Callers get permits in the order of arrival, except that a caller waits
// while its server is at the limit. The zero value is ready to use, and may be shared.
type Pacer struct {
	Fanout    int // connections in set-up at the same time; 0: 64
	PerServer int // of these, to one server or through one jump host; 0: 8

	mu       sync.Mutex // guards the fields below
	busy     int
	arrivals int // number of calls of Acquire so far
	servers  map[string]*pacedServer
	ready    serverQueue // servers below their limit that a caller waits for
}

const (
	defaultFanout    = 64
	defaultPerServer = 8
)

// UnknownServer is the name to pass to Acquire if the caller does not know the server. Connections under this name
// may go to many servers, so the limit is Fanout until a connection is dropped.
const UnknownServer = ""

// An Outcome is the result of setting up a connection, as far as a Pacer distinguishes results.
type Outcome int

const (
	LoggedIn   Outcome = iota
	Dropped            // closed before the login: too many at the same time
	OwnFailure         // failed for reasons of its own
	Dead               // no reply at all: waiting callers would fail too
)

type pacedServer struct {
	maxOpen, limit, busy int
	logins               int       // logins since the limit last changed
	halved               int       // number of times that the limit was halved
	waiting              []*Permit // in the order of arrival
	isReady              bool      // in Pacer.ready
	firstArrival         int       // number of the first waiting Permit when the server was queued
}

func (s *pacedServer) isWanted() bool { return s.busy < s.limit && len(s.waiting) > 0 }

// A serverQueue is a heap of servers, ordered by firstArrival.
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

// A Permit is the right to set up one connection.
type Permit struct {
	p      *Pacer
	server *pacedServer
	number int           // in the order of arrival
	limit  int           // the server's limit when the permit was granted
	halved int           // the server's halved at that time
	ready  chan struct{} // closed when the permit is granted, or err is set
	err    error
}

// IsCrowded reports whether the server's limit exceeded PerServer when the permit was granted. Every server is
// expected to accept PerServer connections at the same time. With more connections, the server may have dropped
// one only because there were too many.
func (w *Permit) IsCrowded() bool { return w.limit > w.p.perServer() }

// Acquire waits for a permit to set up a connection to a server. server may be any string that identifies the
// server. Acquire returns the error of ctx if ctx is done. If another connection has found that the server is dead,
// it returns the error of that connection.
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
	if i < 0 && w.err == nil { // granted at that very moment
		w.Release(OwnFailure, nil)
	}
	return nil, context.Cause(ctx)
}

// grantPermits grants all permits that the limits allow. changed is the server whose state has changed. The
// caller must hold p.mu.
func (p *Pacer) grantPermits(changed *pacedServer) {
	p.markReady(changed)
	for len(p.ready) > 0 && p.busy < p.fanout() {
		s := heap.Pop(&p.ready).(*pacedServer)
		s.isReady = false
		if !s.isWanted() { // no longer
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

// markReady adds a server to p.ready if the server is below its limit and a caller waits for it. The caller
// must hold p.mu.
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

// Release gives the permit back to the Pacer and records how the attempt to set up the connection has ended. If the
// outcome is Dead, all callers that wait for the same server get err.
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
		// Of connections allowed together, only the first drop counts.
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

// Backoff returns how long to wait after attempt n: 0.2 s for n = 1, then 0.5, 1, 2, 2, ... seconds. The result
// for n = 0 is the same as for n = 1. random, a number from 0 to 1, makes the time shorter or longer by up to a
// quarter. So attempts that were dropped together are not repeated together.
func Backoff(n int, random float64) time.Duration {
	steps := []time.Duration{200, 500, 1000, 2000}
	d := steps[min(max(n, 1), len(steps))-1] * time.Millisecond
	return time.Duration(float64(d) * (0.75 + random/2))
}
