package reserve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A moveCluster is a cluster of one slot with two queue hosts, and their tickets and decision locks.
type moveCluster struct {
	*fakeCluster
	mu      sync.Mutex
	slow    func(id job.ID) time.Duration // how long taking a ticket takes at the second host
	tickets map[string][]heldTicket       // by queue host, ordered by number
	number  int64
	lock    map[string]*wire.Conn   // connection that holds the lock, by queue host
	pending map[string][]*wire.Conn // connections that wait for the lock
	conns   map[*wire.Conn]string
	busy    bool
	started []job.ID
}

// A heldTicket is a ticket and the connection that holds it.
type heldTicket struct {
	job.Ticket
	c *wire.Conn
}

func newMoveCluster() *moveCluster {
	s := &moveCluster{tickets: make(map[string][]heldTicket), lock: make(map[string]*wire.Conn), pending: make(map[string][]*wire.Conn),
		conns: make(map[*wire.Conn]string), slow: func(job.ID) time.Duration { return 0 }, busy: true}
	s.fakeCluster = newFakeCluster(s.play)
	return s
}

func (s *moveCluster) play(c *wire.Conn, node string, m wire.Message) bool {
	if m, ok := m.(*wire.Enqueue); ok && node == "q2" {
		time.Sleep(s.slow(m.Ticket.Job))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = node
	switch m := m.(type) {
	case *wire.Enqueue:
		s.number++
		m.Ticket.Number = s.number
		s.tickets[node] = append(s.tickets[node], heldTicket{m.Ticket, c})
		s.sendPosition(node, c)
	case *wire.Dequeue:
		s.tickets[node] = slices.DeleteFunc(s.tickets[node], func(h heldTicket) bool { return h.c == c })
		s.sendPosition(node, nil)
	case *wire.ListLedger:
		var all []job.Ticket
		for _, h := range s.tickets[node] {
			all = append(all, h.Ticket)
		}
		c.Send(&wire.LedgerListed{Tickets: all})
	case *wire.LockDecision:
		if s.lock[node] != nil {
			s.pending[node] = append(s.pending[node], c)
			return true
		}
		s.grantLock(node, c)
	case *wire.UnlockDecision:
		if s.lock[node] = nil; len(s.pending[node]) > 0 {
			next := s.pending[node][0]
			s.pending[node] = s.pending[node][1:]
			s.grantLock(node, next)
		}
	case *wire.Survey:
		if !s.busy {
			return false
		}
		c.Send(busy)
	case *wire.Prepare:
		s.busy = true
		s.started = append(s.started, m.Job)
		return false
	default:
		return false
	}
	return true
}

// ahead returns how many tickets are before that of a connection; all of them if it has none.
func (s *moveCluster) ahead(node string, c *wire.Conn) int {
	for i, h := range s.tickets[node] {
		if h.c == c {
			return i
		}
	}
	return len(s.tickets[node])
}

func (s *moveCluster) grantLock(node string, c *wire.Conn) {
	s.lock[node] = c
	c.Send(&wire.DecisionLocked{Ahead: s.ahead(node, c)})
}

// sendPosition sends the holder of a ticket its position; one is nil for all holders.
func (s *moveCluster) sendPosition(node string, one *wire.Conn) {
	for i, h := range s.tickets[node] {
		if one == nil || one == h.c {
			h.c.Send(&wire.QueuePosition{Ahead: i, Total: len(s.tickets[node]), Head: s.tickets[node][0].Ticket})
		}
	}
}

// kill kills a host.
func (s *moveCluster) kill(node string) {
	s.SetDown(node, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, of := range s.conns {
		if of == node {
			c.Abandon()
		}
	}
	delete(s.lock, node)
	delete(s.pending, node)
	delete(s.tickets, node)
}

// run starts a request, and lets its job run for a second.
func (s *moveCluster) run(t *testing.T, wg *sync.WaitGroup, id string, ctx context.Context) *testRequest {
	r := s.request(func(req *job.Request) {
		withQueueHosts("q1", "q2")(req)
		req.Job, req.Wait = job.ID(id), true
	}, "a")
	wg.Go(func() {
		if _, _, err := r.reservation.findPlace(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", id, err)
		}
		time.Sleep(time.Second)
		s.mu.Lock()
		if slices.Contains(s.started, job.ID(id)) {
			s.busy = false
		}
		s.mu.Unlock()
		for _, n := range r.hosts {
			n.Close()
		}
	})
	return r
}

// Eight requests wait when their queue host is killed. They queue at the next one, in any order of arrival.
// None is lost and none overtakes another. The others stop waiting for one that was cancelled meanwhile, and
// a later request is behind them.
func TestEightMoveToTheNextQueueHost(t *testing.T) {
	for _, test := range []struct {
		name string
		slow func(i int) time.Duration
	}{
		{"in their order", func(int) time.Duration { return 0 }},
		{"in reverse order", func(i int) time.Duration { return time.Duration(8-i) * 300 * time.Millisecond }},
		{"mixed", func(i int) time.Duration { return time.Duration(i*5%8) * 700 * time.Millisecond }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newMoveCluster()
			s.slow = func(id job.ID) time.Duration {
				var i int
				fmt.Sscanf(string(id), "job-%d", &i)
				return test.slow(i)
			}
			var wg sync.WaitGroup
			var want []job.ID
			var requests []*testRequest
			leaving, leave := context.WithCancel(t.Context())
			for i := range 8 {
				ctx := t.Context()
				if i == 3 {
					ctx = leaving
				} else {
					want = append(want, job.ID(fmt.Sprint("job-", i)))
				}
				requests = append(requests, s.run(t, &wg, fmt.Sprint("job-", i), ctx))
				time.Sleep(3 * time.Second)
			}
			s.kill("q1")
			leave()
			s.mu.Lock()
			s.busy = false // any request could start now
			s.mu.Unlock()
			time.Sleep(20 * time.Second)
			want = append(want, "late")
			s.run(t, &wg, "late", t.Context())
			wg.Wait()
			if !slices.Equal(s.started, want) {
				t.Errorf("%s: started %q, want %q", test.name, s.started, want)
			}
			lines := requests[1].lines()
			if !strings.Contains(lines, "lost contact with the queue host q1 (") || !strings.Contains(lines, "); the request now waits in the queue on q2, position 2 of ") {
				t.Errorf("%s: the second prints %q", test.name, lines)
			}
		})
	}
}
