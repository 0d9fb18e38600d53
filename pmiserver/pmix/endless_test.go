package pmix

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/pmix/message"
)

// A job may spawn groups for days. After a group has ended nothing of it is kept, whatever its ranks
// requested: Gets of ranks here and on other nodes (also by ranks of groups that go on), fences with a
// timeout, events, names.
func TestGroupsWithoutEnd(t *testing.T) {
	const groups, step = 300, 100
	const most = 256 // bytes of each
	synctest.Test(t, func(t *testing.T) {
		s, reports := newTestServer(t, 4, 1)
		s.Fetcher, s.Names, s.Notifier = silentFetcher{}, silentNames{}, &sentEvents{}
		stays := initialized(t, s, 0)
		synctest.Wait()
		var live []int64
		goroutines := runtime.NumGoroutine()
		for i := range groups {
			g := testGroup(4, 2, reports)
			g.Name, g.Namespace = fmt.Sprint("g", i), fmt.Sprintf("rs-0123456789abcdef-%d", i+1)
			s.AddGroup(g)
			ours, theirs := net.Pipe() // come would keep it
			number := int(arrivals.Add(1))
			s.runTask(func() { s.serveConn(pendingConn{ours, number}) })
			c := &testClient{t: t, conn: theirs, tag: 100}
			c.write(handshake(g.Namespace, 0, nil))
			if status := c.welcome(); status != message.Success {
				t.Fatal(status)
			}
			long := timeoutOf(1 << 30)
			c.status(registerBody(-5, -6))
			c.status(commitBody(message.ScopeRemote, "card"))
			c.send(getBody(g.Namespace, 1, "never", long))
			c.send(getBody(g.Namespace, 2, "never", long))
			c.send(getBody(testSpace, 0, "never", long))
			c.send(lateFence(procs(g.Namespace, 0, g.Namespace, 1), 1<<30))
			stays.send(getBody(g.Namespace, 1, "never", long))
			synctest.Wait()
			c.conn.Close()
			synctest.Wait()
			s.RankExited(g.Name, 0)
			s.RankExited(g.Name, 1)
			s.RemoveGroup(g.Name)
			if _, answer := stays.receive(); statusOf(answer) != message.NotFound {
				t.Errorf("who waits for a group that is over: %v", statusOf(answer))
			}
			for len(reports) > 0 {
				<-reports
			}
			synctest.Wait()
			if (i+1)%step == 0 {
				var memory runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&memory)
				live = append(live, int64(memory.HeapAlloc))
			}
		}
		if each := (live[len(live)-1] - live[0]) / (groups - step); each > most {
			t.Errorf("%d bytes stay of each group; the heap after each third: %d", each, live)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines, before it were %d", n, goroutines)
		}
		if len(s.groups) != 1 || len(s.collectives)+s.activeCollectives+len(s.givenUp)+s.clients-1 != 0 {
			t.Errorf("%d groups, %d collectives, %d of them active, %d given-up fences, %d clients", len(s.groups), len(s.collectives), s.activeCollectives, len(s.givenUp), s.clients)
		}
		if left := s.groupByName("k").takeWaitingGets(true, nil); len(left) > 0 {
			t.Errorf("%d Gets wait", len(left))
		}
		s.Close()
	})
}
