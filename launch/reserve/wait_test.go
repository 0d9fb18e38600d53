package reserve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/rs/zerolog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/plan"
	"remshell/test/actors"
	"remshell/wire"
)

// A fakeCluster has helpers that do what a test wants, so that waiting takes no time.
type fakeCluster struct{ *actors.FakeHelpers }

func newFakeCluster(play func(c *wire.Conn, node string, m wire.Message) bool) *fakeCluster {
	return &fakeCluster{actors.New(play)}
}

var busy = actors.BusyNode

// A testRequest is a request and the lines that its user reads.
type testRequest struct {
	*reservation
	mu       sync.Mutex // guards reported
	reported []string
}

// request returns a request for one rank on each of the named nodes, changed by change.
func (s *fakeCluster) request(change func(*job.Request), nodes ...string) *testRequest {
	r := &testRequest{}
	req := job.Request{Job: "test", Apps: []job.App{{N: len(nodes), Argv: []string{"prog"}}}, Queue: job.Queue{Required: true}}
	for i, name := range nodes {
		req.Nodes = append(req.Nodes, job.NodeDef{ID: i, Name: name, Slots: 1})
	}
	change(&req)
	inbox := node.NewInbox()
	r.reservation = newReservation(req, Env{Connector: node.Connector{Dialer: s, GreetTimeout: time.Minute}, RankOptions: RankOptions{Window: func(int) int { return 1 }},
		Inbox: inbox, Listener: node.Listener{Inbox: inbox}, Report: func(text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reported = append(r.reported, text)
		}})
	return r
}

// findAndClose finds nodes and closes all connections.
func (r *testRequest) findAndClose(ctx context.Context) (job.Plan, error) {
	p, _, err := r.reservation.findPlace(ctx)
	for _, n := range r.hosts {
		n.Close()
	}
	synctest.Wait()
	return p, err
}

func (r *testRequest) lines() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.reported, "\n")
}

func waiting(req *job.Request) { req.Wait = true }

// The queue host's helper receives Pings during an attempt, however long it takes.
func TestPingsDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := 0
		s := newFakeCluster(nil)
		s.Answer = func(c *wire.Conn, _ string, m wire.Message) bool {
			switch m.(type) {
			case *wire.LockDecision:
				if locks++; locks == 2 { // others hold the decision lock for long
					time.AfterFunc(40*time.Second, func() { c.Send(&wire.DecisionLocked{}) })
					return true
				}
			case *wire.Survey:
				if locks == 1 {
					c.Send(busy)
					return true
				}
			}
			return false
		}
		if _, err := s.request(waiting, "a").findAndClose(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pings := s.CountReceived("a", "Ping"); pings < 8 {
			t.Errorf("%d Pings in 40 s", pings)
		}
	})
}

// --wait-timeout limits the wait, whatever it is for.
func TestWaitingEndsInTime(t *testing.T) {
	const limit = 30 * time.Second
	limited := func(req *job.Request) { req.Wait, req.TimeLimits.Wait = true, limit }
	for _, test := range []struct {
		name string
		play func(s *fakeCluster, c *wire.Conn, m wire.Message) bool
	}{
		{"for a core", func(_ *fakeCluster, c *wire.Conn, m wire.Message) bool {
			_, is := m.(*wire.Survey)
			if is {
				c.Send(busy)
			}
			return is
		}},
		{"for the queue host", func(s *fakeCluster, c *wire.Conn, m wire.Message) bool {
			switch m.(type) {
			case *wire.Survey:
				c.Send(busy)
				return true
			case *wire.WatchClaims:
				s.SetDown("a", true)
				s.Disconnect("a")
			}
			return false
		}},
		{"for the decision lock", func(s *fakeCluster, c *wire.Conn, m wire.Message) bool {
			switch m.(type) {
			case *wire.Survey:
				c.Send(busy)
				return true
			case *wire.LockDecision:
				return s.CountReceived("a", "LockDecision") > 1
			}
			return false
		}},
		{"behind others", func(s *fakeCluster, c *wire.Conn, m wire.Message) bool {
			switch m.(type) {
			case *wire.LockDecision:
				c.Send(&wire.DecisionLocked{Ahead: 2})
				return true
			case *wire.Enqueue:
				c.Send(&wire.QueuePosition{Ahead: 2, Total: 3})
				return true
			}
			return false
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeCluster(nil)
			s.Answer = func(c *wire.Conn, _ string, m wire.Message) bool { return test.play(s, c, m) }
			began := time.Now()
			_, err := s.request(limited, "a").findAndClose(t.Context())
			var failed *plan.Error
			if !errors.As(err, &failed) || failed.QueuePosition != 0 || !strings.HasSuffix(failed.Text, "; waited 00:00:30") {
				t.Errorf("%s: %v", test.name, err)
			}
			if took := time.Since(began); took < limit || took > limit+3*time.Second {
				t.Errorf("%s: it waited %v", test.name, took)
			}
			if n := s.CountDials("a"); n > 10 {
				t.Errorf("%s: dialed %d times", test.name, n)
			}
		})
	}
}

// If a host is lost while its request waits, the request waits for the host, too: the user named it.
func TestALostHostIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(nil)
		var free atomic.Bool
		s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
			switch m.(type) {
			case *wire.Survey:
				if node == "a" && !free.Load() {
					c.Send(busy)
					return true
				}
			case *wire.WatchClaims:
				if node == "b" && s.CountDials("b") == 1 {
					s.SetDown("b", true)
					time.AfterFunc(3*time.Second, func() { s.Disconnect("b") })
					time.AfterFunc(30*time.Second, func() { free.Store(true) })
					time.AfterFunc(5*time.Minute, func() { s.SetDown("b", false) })
				}
			}
			return false
		}
		began := time.Now()
		r := s.request(waiting, "a", "b")
		p, err := r.findAndClose(t.Context())
		if err != nil || len(p.Nodes) != 2 {
			t.Fatalf("%v, %+v", err, p.Nodes)
		}
		if took := time.Since(began); took < 5*time.Minute || took > 6*time.Minute+maxRetry {
			t.Errorf("started after %v, b was back after 5 min", took)
		}
		if want := "position 1 of 1 (b: "; !strings.Contains(r.lines(), want) {
			t.Errorf("printed %q, want %q", r.lines(), want)
		}
	})
}

// A node that can be reached again wakes the request at the head, without connecting to the others again
// (placement.md 6.5).
func TestANodeThatAppearsWakesTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(nil)
		s.SetDown("b", true)
		back := 3 * time.Minute
		time.AfterFunc(back, func() { s.SetDown("b", false) })
		began := time.Now()
		r := s.request(func(req *job.Request) { req.Wait, req.SkipUnreachable = true, true }, "a", "b")
		p, err := r.findAndClose(t.Context())
		if err != nil || len(p.Nodes) != 2 {
			t.Fatalf("%v, %+v", err, p.Nodes)
		}
		if took := time.Since(began); took < back || took > back+maxRetry {
			t.Errorf("started after %v, b was back after %v", took, back)
		}
		if n := s.CountDials("b"); n > 8 {
			t.Errorf("b was dialed %d times in %v", n, back)
		}
		if n := s.CountDials("a"); n != 1 {
			t.Errorf("a was dialed %d times", n)
		}
	})
}

// The candidates of a request are dialled with one call, and so are those that are retried at the same time:
// a batch system starts a set at once.
func TestASetIsDialledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(nil)
		s.SetDown("b", true)
		s.SetDown("c", true)
		time.AfterFunc(minRetry+time.Second, func() {
			s.SetDown("b", false)
			s.SetDown("c", false)
		})
		if _, err := s.request(func(req *job.Request) { req.Wait, req.SkipUnreachable = true, true }, "a", "b", "c").findAndClose(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "[[a b c] [b c] [b c]]"; fmt.Sprint(s.DialSets()) != want {
			t.Errorf("dialled %v, want %s", s.DialSets(), want)
		}
	})
}

// A node that does not reply to a survey is lost: the decision lock is held meanwhile.
func TestASilentNodeIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(func(_ *wire.Conn, node string, m wire.Message) bool {
			_, survey := m.(*wire.Survey)
			return survey && node == "b"
		})
		began := time.Now()
		_, err := s.request(func(*job.Request) {}, "a", "b").findAndClose(t.Context())
		if err == nil || err.Error() != "b: mpiexec on the host was started, but did not answer within 10 s" || time.Since(began) > 12*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		p, err := s.request(func(req *job.Request) { req.SkipUnreachable, req.Apps[0].N = true, 1 }, "b", "a").findAndClose(t.Context())
		if err != nil || p.Nodes[0].Name != "a" {
			t.Errorf("%v, %+v", err, p.Nodes)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the reply was late, or mpiexec was stopped meanwhile
		s := newFakeCluster(nil)
		s.Answer = func(_ *wire.Conn, _ string, m wire.Message) bool {
			_, survey := m.(*wire.Survey)
			return survey && s.CountReceived("a", "Survey") == 1
		}
		if _, err := s.request(func(*job.Request) {}, "a").findAndClose(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A node that is lost while it claims is like one with a conflict: if it may be skipped, the job uses
// others.
func TestANodeLostWhileItClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(func(c *wire.Conn, node string, m wire.Message) bool {
			_, prepare := m.(*wire.Prepare)
			if prepare && node == "b" {
				go c.Abandon()
			}
			return prepare && node == "b"
		})
		if _, err := s.request(func(*job.Request) {}, "a", "b").findAndClose(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "b: mpiexec lost contact with the host before the ranks started (") {
			t.Errorf("%v", err)
		}
		if s.CountReceived("a", "CancelPrepare") == 0 {
			t.Error("a was not released")
		}
		p, err := s.request(func(req *job.Request) { req.SkipUnreachable, req.Apps[0].N = true, 1 }, "b", "a").findAndClose(t.Context())
		if err != nil || p.Nodes[0].Name != "a" {
			t.Errorf("%v, %+v", err, p.Nodes)
		}
	})
}

// The lowest node claims first and alone. If it is lost while the others claim, the job does not start.
func TestTheLowestNodeIsLostWhileOthersClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(nil)
		s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
			_, prepare := m.(*wire.Prepare)
			if prepare && node == "b" {
				s.Disconnect("a")
				synctest.Wait()
			}
			return false
		}
		_, err := s.request(func(*job.Request) {}, "a", "b").findAndClose(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "a: mpiexec lost contact with the host before the ranks started (") {
			t.Errorf("%v", err)
		}
	})
}

// The queue host may be lost before it grants the decision lock.
func TestTheQueueHostIsLostAtTheDecisionLock(t *testing.T) {
	lost := func(c *wire.Conn, node string, m wire.Message) bool {
		_, lock := m.(*wire.LockDecision)
		if lock && node == "q" {
			go c.Abandon()
		}
		return lock && node == "q"
	}
	host := &job.NodeDef{ID: 9, Name: "q"}
	for _, test := range []struct {
		name   string
		change func(*job.Request)
		want   string // in the error or the lines
	}{
		{"required", func(req *job.Request) {}, "the queue host q cannot be reached: "},
		{"not required", func(req *job.Request) { req.Queue.Required = false }, "the job starts without waiting in the queue"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeCluster(lost)
			r := s.request(func(req *job.Request) { req.Queue.Host = host; test.change(req) }, "a")
			_, err := r.findAndClose(t.Context())
			if text := fmt.Sprint(err, r.lines()); !strings.Contains(text, test.want) || (err == nil) != (test.name == "not required") {
				t.Errorf("%s: %v, printed %q; want %q", test.name, err, r.lines(), test.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a waiting request queues there again
		s := newFakeCluster(nil)
		s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
			return s.CountDials("q") == 1 && lost(c, node, m)
		}
		r := s.request(func(req *job.Request) { req.Queue.Host, req.Wait = host, true }, "a")
		if _, err := r.findAndClose(t.Context()); err != nil || s.CountReceived("q", "Enqueue") != 1 || s.CountReceived("q", "Dequeue") != 1 {
			t.Errorf("%v, printed %q; q received %q", err, r.lines(), s.Received("q"))
		}
	})
}

// The cluster file may name another queue host, or one that is down, while a request waits.
func TestTheQueueMoves(t *testing.T) {
	for _, test := range []struct {
		name     string
		required bool
		down     bool
		want     string
	}{
		{"there", true, false, ""},
		{"down", true, true, "the queue host q2 cannot be reached: "},
		{"down, and not required", false, true, "the queue host q2 cannot be reached: "},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeCluster(nil)
			var free atomic.Bool
			s.Answer = func(c *wire.Conn, node string, m wire.Message) bool {
				_, survey := m.(*wire.Survey)
				if survey && !free.Load() {
					c.Send(busy)
				}
				return survey && !free.Load()
			}
			s.SetDown("q2", test.down)
			r := s.request(func(req *job.Request) {
				req.Wait, req.Queue = true, job.Queue{Host: &job.NodeDef{ID: 8, Name: "q1"}, Required: test.required}
			}, "a")
			again := r.req
			again.Queue.Host = &job.NodeDef{ID: 9, Name: "q2"}
			reads := 0
			r.env.RereadRequest = func() (job.Request, bool, error) { reads++; return again, reads == 2, nil }
			time.AfterFunc(time.Minute, func() { free.Store(true) })
			_, err := r.findAndClose(t.Context())
			if got := fmt.Sprint(err); test.want != "" && !strings.HasPrefix(got, test.want) || test.want == "" && err != nil {
				t.Errorf("%s: %v, want %q", test.name, err, test.want)
			}
			if moved := s.CountReceived("q1", "Dequeue") == 1 && s.CountReceived("q2", "Enqueue") == 1; !test.down && !moved {
				t.Errorf("q1 received %q, q2 %q", s.Received("q1"), s.Received("q2"))
			}
		})
	}
}

// A problem with ledgers is reported once for all nodes, whether the queue host or a claim reports it first.
func TestOneNoticeOfALedgerThatCannotBeUsed(t *testing.T) {
	const full = "cannot use the claims in /var/tmp: no space left on device"
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(func(c *wire.Conn, node string, m wire.Message) bool {
			switch m := m.(type) {
			case *wire.LockDecision:
				c.Send(&wire.DecisionLocked{Notice: full})
			case *wire.Prepare:
				c.Send(&wire.Prepared{Group: m.Group.Name, Notice: full})
			default:
				return false
			}
			return true
		})
		r := s.request(func(*job.Request) {}, "a", "b", "c")
		if _, err := r.findAndClose(t.Context()); err != nil {
			t.Fatal(err)
		}
		slices.Sort(r.reported)
		if want := "a,b,c: other jobs may use the same CPUs: " + full; r.lines() != want {
			t.Errorf("printed %q, want %q", r.lines(), want)
		}
	})
}

// An entry without effect in nodes' administrator files is one warning, and jobs run.
func TestOneWarningAboutTheFilesOfNodes(t *testing.T) {
	const unknown = `/etc/remshell/node.toml:3: users: no user "alice" exists here, so the name is ignored`
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(func(c *wire.Conn, node string, m wire.Message) bool {
			if _, is := m.(*wire.Survey); is && node != "b" {
				c.Send(&wire.Surveyed{Warnings: []string{unknown}})
				return true
			}
			return false
		})
		r := s.request(func(*job.Request) {}, "a", "b", "c")
		if _, err := r.findAndClose(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "a,c: warning: " + unknown; r.lines() != want {
			t.Errorf("printed %q, want %q", r.lines(), want)
		}
	})
}

// A launch from inside a rank bypasses the queue: requests in it may wait for that rank's job.
func TestALaunchFromInsideBypassesTheQueue(t *testing.T) {
	for _, test := range []struct {
		name   string
		inside bool // its parent job holds the node
		wait   bool
		want   string // text of the error
	}{
		{"inside", true, false, ""},
		{"inside, and waiting for its siblings", true, true, ""},
		{"inside of a job that has ended", false, false, "this job must wait for 2 requests in the queue"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var free atomic.Bool
			free.Store(!test.wait)
			time.AfterFunc(time.Minute, func() { free.Store(true) })
			s := newFakeCluster(func(c *wire.Conn, _ string, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.LockDecision:
					c.Send(&wire.DecisionLocked{Ahead: 2})
				case *wire.Enqueue:
					c.Send(&wire.QueuePosition{Ahead: 2, Total: 3})
				case *wire.Survey:
					answer := &wire.Surveyed{InParentJob: test.inside && m.ParentJob == "outer"}
					if !free.Load() {
						answer.Occupancy = busy.Occupancy
					}
					c.Send(answer)
				default:
					return false
				}
				return true
			})
			_, err := s.request(func(req *job.Request) {
				req.Queue.ParentJob, req.Nodes[0].Local, req.Wait = "outer", true, test.wait
			}, "a").findAndClose(t.Context())
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("%s: %v, want %q", test.name, err, test.want)
			}
		})
	}
}

// In a batch system's job there is no queue: no decision lock, no ticket. A waiting request waits for launches
// of the same job, and says so (RM-20).
func TestAllocationHasNoQueue(t *testing.T) {
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var free atomic.Bool
			free.Store(!wait)
			time.AfterFunc(time.Minute, func() { free.Store(true) })
			var queued atomic.Int32
			s := newFakeCluster(func(c *wire.Conn, _ string, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.LockDecision, *wire.Enqueue:
					queued.Add(1)
					return false
				case *wire.Survey:
					answer := &wire.Surveyed{OutsideOccupancy: busy.Occupancy}
					if m.RM != "slurm 7" || !free.Load() {
						answer.Occupancy = busy.Occupancy
					}
					c.Send(answer)
					return true
				}
				return false
			})
			r := s.request(func(req *job.Request) { req.RM, req.Wait = &job.RM{Name: "slurm", Job: "7"}, wait }, "a", "b")
			if _, err := r.findAndClose(t.Context()); err != nil {
				t.Errorf("wait %v: %v", wait, err)
			}
			if n := queued.Load(); n > 0 {
				t.Errorf("wait %v: the queue was asked %d times", wait, n)
			}
			if reported := strings.Contains(r.lines(), "waiting until other runs of mpiexec in slurm 7 end"); reported != wait {
				t.Errorf("wait %v: printed %q", wait, r.lines())
			}
		})
	}
}

// A helper may send messages while the cluster file changes the node's definition. The reading goroutine
// uses nothing that changes (for the race detector).
func TestMessagesWhileTheRequestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var surveys atomic.Int32
		s := newFakeCluster(func(c *wire.Conn, _ string, m wire.Message) bool {
			if _, survey := m.(*wire.Survey); survey {
				if surveys.Add(1) < 3 {
					c.Send(busy)
					for range 50 {
						c.Send(&wire.Log{})
					}
					return true
				}
			}
			return false
		})
		r := s.request(func(req *job.Request) { req.Wait = true }, "a")
		r.env.Listener.Log = zerolog.New(new(bytes.Buffer))
		r.env.RereadRequest = func() (job.Request, bool, error) { return r.req, true, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := r.findAndClose(ctx); err != nil || surveys.Load() < 3 {
			t.Errorf("%d surveys, %v", surveys.Load(), err)
		}
	})
}
