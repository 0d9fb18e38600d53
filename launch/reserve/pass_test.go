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

// A headCluster is a cluster whose queue has another user's request at its head, which stays until it is overtaken.
type headCluster struct {
	*fakeCluster
	mu        sync.Mutex
	ahead     int
	head      job.Ticket
	overtaken []string                          // UID and number of each Overtake
	use       func(without []int) job.Occupancy // of every node
}

func newHeadCluster(head job.Ticket) *headCluster {
	q := &headCluster{ahead: 1, head: head, use: func([]int) job.Occupancy { return job.Occupancy{} }}
	q.fakeCluster = newFakeCluster(q.answer)
	return q
}

func (q *headCluster) answer(c *wire.Conn, node string, m wire.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch m := m.(type) {
	case *wire.LockDecision:
		c.Send(&wire.DecisionLocked{Ahead: q.ahead})
	case *wire.Survey:
		c.Send(&wire.Surveyed{Occupancy: q.use(m.IgnoredUsers)})
	case *wire.Overtake:
		q.overtaken = append(q.overtaken, fmt.Sprint(m.UID, m.Number))
		q.ahead = 0
		c.Send(&wire.QueuePosition{Total: 2})
	case *wire.Enqueue:
		c.Send(&wire.QueuePosition{Ahead: q.ahead, Total: 2, Head: q.head})
	default:
		return false
	}
	return true
}

// A waiting request overtakes a head whose ranks fit and which does not start, and says so. It does so also
// if the head's user holds the whole node, since the user could release it. It never overtakes a head whose
// ranks do not fit now.
func TestOvertaking(t *testing.T) {
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
	const line = "the request of eve (job stale, pid 4711 on a) could have started a minute ago, but has not started; this job starts before it"
	for _, test := range []struct {
		name   string
		head   job.Ticket
		use    func([]int) job.Occupancy
		within time.Duration // time until it starts or overtakes; 0: never
		pass   string        // Overtake that is sent
		line   string
	}{
		{"its ranks fit", stale, nil, time.Minute, "77 0", line},
		{"its user has all of it", stale, held(77), time.Minute, "77 0", line},
		{"its ranks do not fit", stale, held(78), 0, "", ""},
		{"its ranks can never fit", huge, nil, 0, "77 3", ""},
		{"its nodes are not ours", unseen, nil, 10 * time.Minute, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newHeadCluster(test.head)
			if test.use != nil {
				q.use = test.use
			}
			r := q.request(waiting, "a")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			began := time.Now()
			_, err := r.findAndClose(ctx)
			took := time.Since(began)
			if got := strings.Join(q.overtaken, ","); got != test.pass {
				t.Errorf("%s: overtaken %q, want %q", test.name, got, test.pass)
			}
			if !strings.Contains(r.lines(), test.line) || test.line == "" && strings.Contains(r.lines(), "going ahead") {
				t.Errorf("%s: printed %q", test.name, r.lines())
			}
			blocked := test.name == "its ranks do not fit" || test.name == "its user has all of it"
			if blocked != (err != nil) || !blocked && (took < test.within || took > test.within+6*time.Minute) {
				t.Errorf("%s: after %v: %v", test.name, took, err)
			}
		})
	}
}
