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

// A rush is a cluster of one slot, and two queue hosts with their tickets and gates.
type rush struct {
	*cast
	mu      sync.Mutex
	slow    func(id job.ID) time.Duration // how long its ticket takes, at the second host
	tickets map[string][]holding          // by queue host, in the order of their numbers
	number  int64
	gate    map[string]*wire.Conn // whose it is
	outside map[string][]*wire.Conn
	conns   map[*wire.Conn]string
	busy    bool
	started []job.ID
}

// A holding is a ticket and the connection that keeps it.
type holding struct {
	job.Ticket
	c *wire.Conn
}

func newRush() *rush {
	s := &rush{tickets: make(map[string][]holding), gate: make(map[string]*wire.Conn), outside: make(map[string][]*wire.Conn),
		conns: make(map[*wire.Conn]string), slow: func(job.ID) time.Duration { return 0 }, busy: true}
	s.cast = newCast(s.play)
	return s
}

func (s *rush) play(c *wire.Conn, node string, m wire.Message) bool {
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
		s.tickets[node] = append(s.tickets[node], holding{m.Ticket, c})
		s.tell(node, c)
	case *wire.Dequeue:
		s.tickets[node] = slices.DeleteFunc(s.tickets[node], func(h holding) bool { return h.c == c })
		s.tell(node, nil)
	case *wire.ListLedger:
		var all []job.Ticket
		for _, h := range s.tickets[node] {
			all = append(all, h.Ticket)
		}
		c.Send(&wire.LedgerListed{Tickets: all})
	case *wire.LockDecision:
		if s.gate[node] != nil {
			s.outside[node] = append(s.outside[node], c)
			return true
		}
		s.open(node, c)
	case *wire.UnlockDecision:
		if s.gate[node] = nil; len(s.outside[node]) > 0 {
			next := s.outside[node][0]
			s.outside[node] = s.outside[node][1:]
			s.open(node, next)
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

// ahead is how many tickets stand before that of a connection; all, if it has none.
func (s *rush) ahead(node string, c *wire.Conn) int {
	for i, h := range s.tickets[node] {
		if h.c == c {
			return i
		}
	}
	return len(s.tickets[node])
}

func (s *rush) open(node string, c *wire.Conn) {
	s.gate[node] = c
	c.Send(&wire.DecisionLocked{Ahead: s.ahead(node, c)})
}

// tell tells one who holds a ticket, or all, where they stand.
func (s *rush) tell(node string, one *wire.Conn) {
	for i, h := range s.tickets[node] {
		if one == nil || one == h.c {
			h.c.Send(&wire.QueuePosition{Ahead: i, Total: len(s.tickets[node]), Head: s.tickets[node][0].Ticket})
		}
	}
}

// kill kills a host.
func (s *rush) kill(node string) {
	s.SetDown(node, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, of := range s.conns {
		if of == node {
			c.Abandon()
		}
	}
	delete(s.gate, node)
	delete(s.outside, node)
	delete(s.tickets, node)
}

// run sends a request off, and lets its job run for a moment.
func (s *rush) run(t *testing.T, wg *sync.WaitGroup, id string, ctx context.Context) *try {
	r := s.request(func(req *job.Request) {
		keptBy("q1", "q2")(req)
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

// Eight wait when their queue host is killed. They queue at the next one, in whichever order they come there:
// nobody is lost, nobody overtakes another, one that has given up meanwhile is waited for no more, and
// who comes later is behind them.
func TestEightMoveToTheNextQueueHost(t *testing.T) {
	for _, test := range []struct {
		name string
		slow func(i int) time.Duration
	}{
		{"in their order", func(int) time.Duration { return 0 }},
		{"the other way round", func(i int) time.Duration { return time.Duration(8-i) * 300 * time.Millisecond }},
		{"mixed", func(i int) time.Duration { return time.Duration(i*5%8) * 700 * time.Millisecond }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newRush()
			s.slow = func(id job.ID) time.Duration {
				var i int
				fmt.Sscanf(string(id), "job-%d", &i)
				return test.slow(i)
			}
			var wg sync.WaitGroup
			var want []job.ID
			var tries []*try
			leaving, leave := context.WithCancel(t.Context())
			for i := range 8 {
				ctx := t.Context()
				if i == 3 {
					ctx = leaving
				} else {
					want = append(want, job.ID(fmt.Sprint("job-", i)))
				}
				tries = append(tries, s.run(t, &wg, fmt.Sprint("job-", i), ctx))
				time.Sleep(3 * time.Second)
			}
			s.kill("q1")
			leave()
			s.mu.Lock()
			s.busy = false // whoever comes first could start
			s.mu.Unlock()
			time.Sleep(20 * time.Second)
			want = append(want, "newcomer")
			s.run(t, &wg, "newcomer", t.Context())
			wg.Wait()
			if !slices.Equal(s.started, want) {
				t.Errorf("%s: started %q, want %q", test.name, s.started, want)
			}
			said := tries[1].lines()
			if !strings.Contains(said, "the queue host q1 is lost (") || !strings.Contains(said, "); queueing on q2, position 2 of ") {
				t.Errorf("%s: the second says %q", test.name, said)
			}
		})
	}
}
