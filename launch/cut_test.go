package launch

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/launch/supervise"
	"remshell/wire"
)

// A panic in the goroutine that serves one node is that node's end, and the stack is for the
// log (TRUST-35).
func TestAPanicIsTheEndOfOneNode(t *testing.T) {
	here, there := net.Pipe()
	peer := wire.NewConn(there, wire.Helper)
	defer peer.Abandon()
	var log bytes.Buffer
	f := &fleet{env: Env{Log: zerolog.New(&log)}, events: newBox()}
	n := &node{name: "a", index: 0, conn: wire.NewConn(here, wire.Launcher)} // and no gate: our own fault
	peer.Send(&wire.Ping{})
	f.read(n)
	events := f.events.take(t.Context(), time.Time{})
	if len(events) != 1 || !strings.HasPrefix(events[0].(ended).err.Error(), "internal error: ") || !strings.Contains(log.String(), "goroutine") {
		t.Fatalf("%+v, log %s", events, log.String())
	}
	if _, err := peer.Recv(); err == nil {
		t.Error("the connection is still there")
	}
	s := supervise.NewState(job.Plan{Size: 1, Nodes: []job.NodePlan{{Name: "a", Ranks: []job.RankPlan{{}}}}}, supervise.Rules{}, time.Now())
	s.Step(supervise.NodeLost{Node: 0, Why: reasonOf(events[0].(ended).err)}, time.Now())
	if s.Cause == nil || !strings.HasPrefix(s.Cause.Text, "lost contact with a (internal error: ") || s.ExitCode() != job.ExitInternal {
		t.Errorf("%+v", s.Cause)
	}
}

// A node's helper may speak while the cluster file changes what the node is: its reader looks
// at nothing that then changes (for the race detector).
func TestWordsWhileTheRequestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var surveys atomic.Int32
		s := newCast(func(c *wire.Conn, _ string, m wire.Message) bool {
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
		r.env.Log = zerolog.New(new(bytes.Buffer))
		r.env.Again = func() (job.Request, bool, error) { return r.req, true, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := r.book(ctx); err != nil || surveys.Load() < 3 {
			t.Errorf("%d surveys, %v", surveys.Load(), err)
		}
	})
}
