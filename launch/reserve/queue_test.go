package reserve

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// withQueueHosts gives a request the queue hosts of its cluster file, in their order.
func withQueueHosts(hosts ...string) func(*job.Request) {
	return func(req *job.Request) {
		for i, name := range hosts {
			def := job.NodeDef{ID: 100 + i, Name: name}
			if i == 0 {
				req.Queue.Host = &def
			} else {
				req.Queue.StandbyHosts = append(req.Queue.StandbyHosts, def)
			}
		}
	}
}

// ticketOn has hosts report a waiting request in their queue.
func ticketOn(hosts string) func(c *wire.Conn, node string, m wire.Message) bool {
	return func(c *wire.Conn, node string, m wire.Message) bool {
		if !strings.Contains(hosts, node) {
			return false
		}
		switch m.(type) {
		case *wire.LockDecision:
			c.Send(&wire.DecisionLocked{Ahead: 1})
		case *wire.ListLedger:
			c.Send(&wire.LedgerListed{Tickets: []job.Ticket{{Number: 1, Job: "earlier", UID: 7}}})
		default:
			return false
		}
		return true
	}
}

// If a queue host does not answer, the next one keeps the queue, and a line says so. Requests that wait
// there still go first when the first queue host is back: there are never two queues.
func TestADeadQueueHost(t *testing.T) {
	for _, test := range []struct {
		name  string
		down  string
		waits string
		want  string // in the error or the lines
		ok    bool
	}{
		{"all are there", "", "", "", true},
		{"the first is dead", "q1", "", "the queue host q1 cannot be reached (connection refused); mpiexec uses the queue on q2", true},
		{"the second is dead", "q2", "", "", true},
		{"one waits at the second", "q1", "q2", "must wait for 1 request in the queue", false},
		{"one waits at the second, and the first is back", "", "q2", "must wait for 1 request in the queue", false},
		{"all are dead", "q1 q2", "", "the queue host q1 cannot be reached: connection refused", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeCluster(ticketOn(test.waits))
			for _, host := range strings.Fields(test.down) {
				s.SetDown(host, true)
			}
			r := s.request(withQueueHosts("q1", "q2"), "a")
			began := time.Now()
			_, err := r.findAndClose(t.Context())
			text := fmt.Sprint(err, r.lines())
			if (err == nil) != test.ok || !strings.Contains(text, test.want) || test.ok && test.want == "" && r.lines() != "" {
				t.Errorf("%s: %v, printed %q; want %q", test.name, err, r.lines(), test.want)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: took %v", test.name, took)
			}
		})
	}
}

// A queue host that accepts connections and sends nothing costs three seconds, if there is another.
func TestASilentQueueHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(nil)
		s.SetSilent("q1")
		r := s.request(withQueueHosts("q1", "q2"), "a")
		began := time.Now()
		_, err := r.findAndClose(t.Context())
		if took := time.Since(began); err != nil || took < otherHostsWait || took > otherHostsWait+time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if want := "the queue host q1 cannot be reached (the host did not answer within 3s after another host had answered); mpiexec uses the queue on q2"; r.lines() != want {
			t.Errorf("printed %q, want %q", r.lines(), want)
		}
	})
}

// A queue host that is lost while it holds the decision lock is replaced by the next one. A request that
// waits there queues again at the next one.
func TestTheQueueHostIsLostAndThereIsAnother(t *testing.T) {
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeCluster(nil)
			s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
				_, lock := m.(*wire.LockDecision)
				if lock && node == "q1" {
					s.SetDown("q1", true)
					go c.Abandon()
				}
				return lock && node == "q1"
			}
			r := s.request(func(req *job.Request) { withQueueHosts("q1", "q2")(req); req.Wait = wait }, "a")
			if _, err := r.findAndClose(t.Context()); err != nil || s.CountReceived("q2", "LockDecision") == 0 {
				t.Errorf("wait %v: %v, printed %q; q2 received %q", wait, err, r.lines(), s.Received("q2"))
			}
		})
	}
}
