package reserve

import (
	"testing"
	"testing/synctest"

	"remshell/launch/node"
	"remshell/plan"
	"remshell/wire"
)

// The reply to a request is handled before what the host has sent after it. Otherwise a request that has come to the
// head of the queue would wait for ever behind the request that its first position has named.
func TestALaterPositionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(func(c *wire.Conn, _ string, m wire.Message) bool {
			_, is := m.(*wire.Enqueue)
			return is // the test itself puts the replies into the inbox, both at once
		})
		r := s.request(waiting, "a")
		if err := r.connectCandidates(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, ahead := range []int{1, 0} {
			r.env.Inbox.Put(node.NodeMessage{From: r.hosts[0].Node, Message: &wire.QueuePosition{Ahead: ahead, Total: ahead + 1}})
		}
		failed := &plan.Error{QueuePosition: 1}
		if err := r.queue.EnqueueFailed(t.Context(), failed); err != failed {
			t.Fatal(err)
		}
		if at := r.queue.Position(); at != 1 {
			t.Errorf("position %d, want 1", at)
		}
		r.queue.Finish()
		r.hosts[0].Close()
		synctest.Wait()
	})
}
