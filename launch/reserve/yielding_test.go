package reserve

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A tenancy is nodes of which other jobs have all: those that are willing, of each node one, and firm ones. What these say when
// they are asked to give way, and what they do, is the test's.
type tenancy struct {
	*cast
	mu      sync.Mutex // guards the rest
	willing map[string]job.Willing
	firm    map[string]bool // nodes that others have
	taken   map[string]bool // those that others have as soon as their job leaves them
	conns   map[string]*wire.Conn
	claims  map[string]job.Claim // what is claimed of a node by a job that gives way, by the node
	asked   func(s *tenancy, node string, m *wire.Ask)
}

func newTenancy(asked func(s *tenancy, node string, m *wire.Ask)) *tenancy {
	s := &tenancy{willing: make(map[string]job.Willing), firm: make(map[string]bool), taken: make(map[string]bool), conns: make(map[string]*wire.Conn), claims: make(map[string]job.Claim), asked: asked}
	s.cast = newCast(s.play)
	return s
}

// has gives a node to a job that gives way.
func (s *tenancy) has(node string, id job.ID, how job.Yielding, age time.Duration) {
	w := job.Willing{Job: id, UID: 7, User: "bob", How: how, Since: time.Unix(1e9, 0).Add(-age), Procs: 4, Seated: 4, Busy: []int{0, 1, 2, 3}}
	s.willing[node], s.claims[node] = w, job.Claim{Job: id, UID: 7, User: "bob", Preemptible: how}
}

// leaves takes a node from all who have it, and tells of that. Others may be there at once.
func (s *tenancy) leaves(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.willing, node)
	delete(s.claims, node)
	s.firm[node] = s.taken[node]
	s.conns[node].Send(&wire.Changed{})
}

func (s *tenancy) play(c *wire.Conn, node string, m wire.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[node] = c
	w, willing := s.willing[node]
	switch m := m.(type) {
	case *wire.Survey:
		switch {
		case willing:
			c.Send(&wire.Surveyed{Use: w.Holds(), Willing: []job.Willing{w}})
		case s.firm[node]:
			c.Send(busy)
		default:
			return false
		}
	case *wire.List:
		listed := &wire.Listed{UID: 5}
		if claim, held := s.claims[node]; held {
			listed.Claims = []job.Claim{claim}
		}
		c.Send(listed)
	case *wire.Ask:
		s.asked(s, node, m)
	default:
		return false
	}
	return true
}

// one asks for one rank, on any of some nodes.
func one(change func(*job.Request)) func(*job.Request) {
	return func(req *job.Request) {
		req.Apps[0].N = 1
		change(req)
	}
}

// While a job writes its checkpoint that is asked to give way, the head of the queue looks again at each change: it takes room that
// comes up elsewhere, which nobody behind it may, and takes back what it asked for (survive.md SV-33, TRUST-18).
func TestRoomElsewhereWhileOthersGiveWay(t *testing.T) {
	for name, change := range map[string]func(*job.Request){"who waits": waiting, "who does not": func(*job.Request) {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTenancy(func(s *tenancy, _ string, m *wire.Ask) { // and says nothing
					time.AfterFunc(20*time.Second, func() { s.leaves("a") })
				})
				s.firm["a"] = true
				s.has("b", "slow", job.YieldByRequeueing, 0)
				began := time.Now()
				r := s.request(one(change), "a", "b")
				p, err := r.book(t.Context())
				if took := time.Since(began); err != nil || p.Nodes[0].Name != "a" || took > time.Minute {
					t.Errorf("on %+v after %v, %v; said %q", p.Nodes, took, err, r.lines())
				}
				if s.Count("b", "Ask") != 1 || s.Count("b", "Unask") != 1 {
					t.Errorf("b has heard %q", s.Heard("b"))
				}
			})
		})
	}
}

// A job that says that it gives way, and does not, costs who does not wait as long as one may take, however many there are, and he
// reads which it was.
func TestAJobThatOnlySaysThatItGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTenancy(func(s *tenancy, node string, m *wire.Ask) {
			if node == "b" {
				s.conns[node].Send(&wire.Answer{ID: m.ID, State: job.AskDone, Text: "of course"})
			}
		})
		s.has("a", "older", job.YieldBySuspending, time.Hour)
		s.has("b", "liar", job.YieldBySuspending, 0)
		began := time.Now()
		r := s.request(one(func(req *job.Request) { req.Ckpt.Grace, req.Limits.Grace = time.Minute, 10*time.Second }), "a", "b")
		_, err := r.book(t.Context())
		if err == nil || !strings.Contains(err.Error(), "asked to give way, and did not: job liar of bob (suspend): not within 1 min 10 s") {
			t.Errorf("%v; said %q", err, r.lines())
		}
		if took := time.Since(began); took > 75*time.Second || s.Count("a", "Ask") != 0 {
			t.Errorf("after %v, a has heard %q", took, s.Heard("a"))
		}
	})
}

// Who is refused asks the next one at once, and starts when that has given way, whatever was said; then nothing is open any more.
func TestTheNextOneIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTenancy(func(s *tenancy, node string, m *wire.Ask) {
			if node == "b" {
				s.conns[node].Send(&wire.Answer{ID: m.ID, State: job.AskRefused, Text: "not now"})
				return
			}
			time.AfterFunc(time.Second, func() { s.leaves("a") })
		})
		s.has("a", "older", job.YieldBySuspending, time.Hour)
		s.has("b", "young", job.YieldBySuspending, 0)
		began := time.Now()
		r := s.request(one(func(*job.Request) {}), "a", "b")
		p, err := r.book(t.Context())
		if took := time.Since(began); err != nil || p.Nodes[0].Name != "a" || took > 30*time.Second {
			t.Errorf("on %+v after %v, %v; said %q", p.Nodes, took, err, r.lines())
		}
		if said := r.lines(); !strings.Contains(said, "asking job young of bob (suspend) to give way\njob young does not give way: not now\nasking job older of bob (suspend)") {
			t.Errorf("%q", said)
		}
	})
}

// What a job that gives way holds in reserve is not asked for, and it has given way all the same: where somebody else was faster, the next one is
// asked at once.
func TestAJobThatGivesWayKeepsItsSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTenancy(func(s *tenancy, node string, m *wire.Ask) {
			time.AfterFunc(time.Second, func() {
				s.leaves(node)
				s.conns[node].Send(&wire.Answer{ID: m.ID, State: job.AskDone})
			})
		})
		s.firm["a"] = true
		s.claims["a"] = job.Claim{Job: "young", UID: 7, User: "bob", Resting: job.Spare}
		s.has("b", "young", job.YieldBySuspending, 0)
		s.has("c", "older", job.YieldBySuspending, time.Hour)
		s.taken["b"] = true
		began := time.Now()
		r := s.request(one(func(*job.Request) {}), "a", "b", "c")
		p, err := r.book(t.Context())
		if took := time.Since(began); err != nil || p.Nodes[0].Name != "c" || took > time.Minute {
			t.Errorf("on %+v after %v, %v; said %q", p.Nodes, took, err, r.lines())
		}
	})
}
