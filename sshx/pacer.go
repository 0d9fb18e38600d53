package sshx

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Pacer keeps a fan-out from overrunning servers: cli.md SSH-7. OpenSSH's
// default MaxStartups 10:30:100 drops a growing share of the connections that
// have not logged in, above the tenth.
//
//	enter ... connect, key exchange, login ... leave(outcome)
//
// A server that drops one gets half as many at once from then on, and one more
// again after as many logins as it has places. The zero value is ready to use,
// and may be shared by Dialers.
type Pacer struct {
	Fanout    int // connections in set-up at once; 0: 64
	PerServer int // of these to one server or through one jump host; 0: 8

	mu      sync.Mutex // guards what follows
	busy    int
	servers map[string]*pacedServer
	queue   []*pass // those who wait, in the order of arrival
}

const (
	defaultFanout    = 64
	defaultPerServer = 8
)

// An outcome is how a set-up ended, as far as it tells about the server.
type outcome int

const (
	loggedIn outcome = iota
	dropped          // closed before the login: too many at once
	unclear          // failed for reasons of its own
	dead             // no answer at all: the same will happen to those who wait
)

type pacedServer struct {
	limit, busy int
	good        int // logins since the limit last changed
	halved      int // how often the limit was halved
}

// A pass is the right to have one connection in set-up.
type pass struct {
	p      *Pacer
	server string
	halved int           // the server's count when the pass was given out
	ready  chan struct{} // closed when it is given out, or err is set
	err    error
}

// enter waits for a place toward a server, which any string may name. The
// error is the context's, or the one with which another connection has found
// the server dead meanwhile.
func (p *Pacer) enter(ctx context.Context, server string) (*pass, error) {
	w := &pass{p: p, server: server, ready: make(chan struct{})}
	p.mu.Lock()
	p.queue = append(p.queue, w)
	p.admit()
	p.mu.Unlock()
	select {
	case <-w.ready:
		return w, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.queue, w)
	if i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 && w.err == nil { // let in at that very moment
		w.leave(unclear, nil)
	}
	return nil, context.Cause(ctx)
}

// admit lets in whoever has a place, in order; p.mu is held.
func (p *Pacer) admit() {
	fanout := p.Fanout
	if fanout <= 0 {
		fanout = defaultFanout
	}
	p.queue = slices.DeleteFunc(p.queue, func(w *pass) bool {
		s := p.server(w.server)
		if p.busy >= fanout || s.busy >= s.limit {
			return false
		}
		p.busy++
		s.busy++
		w.halved = s.halved
		close(w.ready)
		return true
	})
}

func (p *Pacer) server(name string) *pacedServer {
	s := p.servers[name]
	if s == nil {
		s = &pacedServer{limit: p.perServer()}
		if p.servers == nil {
			p.servers = map[string]*pacedServer{}
		}
		p.servers[name] = s
	}
	return s
}

func (p *Pacer) perServer() int {
	if p.PerServer > 0 {
		return p.PerServer
	}
	return defaultPerServer
}

// leave gives the place back. With dead, err is what those get who still wait
// for the same server.
func (w *pass) leave(o outcome, err error) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.server(w.server)
	p.busy--
	s.busy--
	switch o {
	case loggedIn:
		if s.good++; s.good >= s.limit && s.limit < p.perServer() {
			s.limit, s.good = s.limit+1, 0
		}
	case dropped:
		// Of a burst that was let in together, the first drop says it all.
		if w.halved == s.halved {
			s.limit, s.good = max(1, s.limit/2), 0
			s.halved++
		}
	case dead:
		p.queue = slices.DeleteFunc(p.queue, func(q *pass) bool {
			if q.server != w.server {
				return false
			}
			q.err = err
			close(q.ready)
			return true
		})
	}
	p.admit()
}

// backoff is how long to wait before attempt n+1, n counting from 1: 0.2, 0.5,
// 1, 2, 2, ... seconds, each stretched or shortened by up to a quarter so that
// those dropped together do not come back together. random is from 0 to 1.
func backoff(n int, random float64) time.Duration {
	steps := []time.Duration{200, 500, 1000, 2000}
	d := steps[min(n, len(steps))-1] * time.Millisecond
	return time.Duration(float64(d) * (0.75 + random/2))
}
