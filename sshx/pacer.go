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

	mu      sync.Mutex // guards what follows
	busy    int
	arrived int // how many have entered
	servers map[string]*pacedServer
	ready   byArrival // servers that somebody waits for and that have room
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
	LoggedIn Outcome = iota
	Dropped          // closed before the login: too many at once
	Unclear          // failed for reasons of its own
	Dead             // no answer at all: the same will happen to those who wait
)

type pacedServer struct {
	most, limit, busy int
	good              int     // logins since the limit last changed
	halved            int     // how often the limit was halved
	waiting           []*Pass // in the order of arrival
	listed            bool    // among those that are ready
	first             int     // who waited first when it was listed, by arrival
}

func (s *pacedServer) wanted() bool { return s.busy < s.limit && len(s.waiting) > 0 }

// byArrival is a heap of servers: the one that was waited for first is on top.
type byArrival []*pacedServer

func (q byArrival) Len() int           { return len(q) }
func (q byArrival) Less(i, j int) bool { return q[i].first < q[j].first }
func (q byArrival) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byArrival) Push(s any)        { *q = append(*q, s.(*pacedServer)) }
func (q *byArrival) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}

// A Pass is the right to have one connection in set-up.
type Pass struct {
	p      *Pacer
	server *pacedServer
	number int           // in the order of arrival
	limit  int           // of the server, when the pass was given out
	halved int           // the server's count then
	ready  chan struct{} // closed when it is given out, or err is set
	err    error
}

// Crowded reports whether more were let in together than any one server is sure to bear: a
// drop tells about the crowd then, and not about this attempt.
func (w *Pass) Crowded() bool { return w.limit > w.p.perServer() }

// Enter waits for a place toward a server, which any string may name. The
// error is the context's, or the one with which another connection has found
// the server dead meanwhile.
func (p *Pacer) Enter(ctx context.Context, server string) (*Pass, error) {
	w := &Pass{p: p, ready: make(chan struct{})}
	p.mu.Lock()
	p.arrived++
	w.number, w.server = p.arrived, p.server(server)
	w.server.waiting = append(w.server.waiting, w)
	p.admit(w.server)
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
		w.Leave(Unclear, nil)
	}
	return nil, context.Cause(ctx)
}

// admit lets in whoever has a place, now that something has changed for a server; p.mu is held.
func (p *Pacer) admit(changed *pacedServer) {
	p.list(changed)
	for len(p.ready) > 0 && p.busy < p.fanout() {
		s := heap.Pop(&p.ready).(*pacedServer)
		s.listed = false
		if !s.wanted() { // any more
			continue
		}
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		p.busy++
		s.busy++
		w.limit, w.halved = s.limit, s.halved
		close(w.ready)
		p.list(s)
	}
}

// list notes that a server is ready, if it is; p.mu is held.
func (p *Pacer) list(s *pacedServer) {
	if s.wanted() && !s.listed {
		s.listed, s.first = true, s.waiting[0].number
		heap.Push(&p.ready, s)
	}
}

func (p *Pacer) server(name string) *pacedServer {
	s := p.servers[name]
	if s == nil {
		s = &pacedServer{most: p.perServer()}
		if name == UnknownServer {
			s.most = p.fanout()
		}
		s.limit = s.most
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

// Leave gives the place back. With Dead, err is what those get who still wait
// for the same server.
func (w *Pass) Leave(o Outcome, err error) {
	p, s := w.p, w.server
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	s.busy--
	switch o {
	case LoggedIn:
		if s.good++; s.good >= s.limit && s.limit < s.most {
			s.limit, s.good = s.limit+1, 0
		}
	case Dropped:
		// Of a burst that was let in together, the first drop says it all.
		if w.halved == s.halved {
			s.limit, s.good = max(1, s.limit/2), 0
			s.halved++
		}
	case Dead:
		for _, q := range s.waiting {
			q.err = err
			close(q.ready)
		}
		s.waiting = nil
	}
	p.admit(s)
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
