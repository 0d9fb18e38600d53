package reserve

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A queue has one request of another user at its head, which stays until it is passed.
type headed struct {
	*cast
	mu     sync.Mutex
	ahead  int
	head   job.Ticket
	passed []wire.Overtake
	use    func(without []int) job.Occupancy // of every node
}

func newHeaded(head job.Ticket) *headed {
	q := &headed{ahead: 1, head: head, use: func([]int) job.Occupancy { return job.Occupancy{} }}
	q.cast = newCast(q.answer)
	return q
}

func (q *headed) answer(c *wire.Conn, node string, m wire.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch m := m.(type) {
	case *wire.LockDecision:
		c.Send(&wire.DecisionLocked{Ahead: q.ahead})
	case *wire.Survey:
		c.Send(&wire.Surveyed{Occupancy: q.use(m.IgnoredUsers)})
	case *wire.Overtake:
		q.passed = append(q.passed, *m)
		q.ahead = 0
		c.Send(&wire.QueuePosition{Total: 2})
	case *wire.Enqueue:
		c.Send(&wire.QueuePosition{Ahead: q.ahead, Total: 2, Head: q.head})
	default:
		return false
	}
	return true
}

// A waiter passes a head that does not want its room, and says so; one whose user holds all of
// the node as well, since that is his to give; and never one that has none.
func TestPassing(t *testing.T) {
	stale := job.Ticket{Number: 3, Job: "stale", UID: 77, User: "eve", PID: 4711, Size: 2, Nodes: "a"}
	held := func(by int) func([]int) job.Occupancy {
		return func(without []int) job.Occupancy {
			if len(without) == 1 && without[0] == by {
				return job.Occupancy{}
			}
			return busy.Occupancy
		}
	}
	huge := stale
	huge.Size = 1 << 20
	unseen := stale
	unseen.Nodes = "zz[1-9]"
	const told = "eve's request (job stale, pid 4711 on a) has had room for 1 minute and did not start; going ahead of it"
	for _, test := range []struct {
		name   string
		head   job.Ticket
		use    func([]int) job.Occupancy
		within time.Duration // it starts, or is passed; 0: never
		pass   string        // what is asked for
		said   string
	}{
		{"it does not want its room", stale, nil, time.Minute, "{77 0}", told},
		{"its user has all of it", stale, held(77), time.Minute, "{77 0}", told},
		{"there is no room", stale, held(78), 0, "", ""},
		{"there can be none", huge, nil, 0, "{77 3}", ""},
		{"its nodes are not ours", unseen, nil, 10 * time.Minute, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newHeaded(test.head)
			if test.use != nil {
				q.use = test.use
			}
			r := q.request(waiting, "a")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			began := time.Now()
			_, err := r.book(ctx)
			took := time.Since(began)
			if got := strings.Trim(fmt.Sprint(q.passed), "[]"); got != test.pass {
				t.Errorf("%s: passed %q, want %q", test.name, got, test.pass)
			}
			if !strings.Contains(r.lines(), test.said) || test.said == "" && strings.Contains(r.lines(), "going ahead") {
				t.Errorf("%s: said %q", test.name, r.lines())
			}
			blocked := test.name == "there is no room" || test.name == "its user has all of it"
			if blocked != (err != nil) || !blocked && (took < test.within || took > test.within+6*time.Minute) {
				t.Errorf("%s: after %v: %v", test.name, took, err)
			}
		})
	}
}
