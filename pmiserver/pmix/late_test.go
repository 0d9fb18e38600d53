package pmix

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// lateFence is a FENCE request that collects data and has a timeout.
func lateFence(list []bfrops.Proc, seconds uint32) []byte {
	return bfrops.AppendInfos(bfrops.AppendProcs(body(fenceOf), list), []bfrops.Info{{Key: "pmix.collect", Value: bfrops.FlagOf(true)}, timeoutOf(seconds)})
}

// When one member's timeout of a fence is over, the fence ends for all members with -24, also on other
// nodes, and also for members that enter later. The next fence completes, and exchanges the data that
// the first one should have.
func TestFenceWhoseTimeIsOver(t *testing.T) {
	for what, test := range map[string]struct {
		members    []bfrops.Proc
		come, late []int // ranks that enter in time, the first with a timeout, and those that enter later
	}{
		"nobody else is there":             {all, []int{0}, []int{1, 2}},
		"all of its node are there":        {all, []int{0, 1}, []int{2}},
		"others are there, of its own not": {all, []int{0, 2}, []int{1}},
		"one of another node has a limit":  {all, []int{2, 0, 1}, []int{3}},
		"all are of one node":              {procs(testSpace, 0, testSpace, 1), []int{1}, []int{0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := [][]int{{0, 1}, {2}}
			if test.late[0] == 3 {
				nodes = append(nodes, []int{3})
			}
			servers, _ := newTestNodes(t, nodes...)
			clients := make(map[int]*testClient)
			for node, ranks := range nodes {
				for _, rank := range ranks {
					clients[rank] = initialized(t, servers[node], rank)
				}
			}
			meet := func(want message.Status, of []int, limits ...uint32) {
				t.Helper()
				for i, rank := range of {
					request := fenceBody(test.members, true)
					if i < len(limits) {
						request = lateFence(test.members, limits[i])
					}
					clients[rank].send(request)
				}
				for _, rank := range of {
					if _, answer := clients[rank].receive(); statusOf(answer) != want {
						t.Errorf("%s: rank %d is answered by %v, want %v", what, rank, statusOf(answer), want)
					}
				}
			}
			first := test.come[0]
			clients[first].status(commitBody(message.ScopeRemote, "card"))
			began := time.Now()
			meet(message.TimedOut, test.come, 5, 60)
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("%s: after %v", what, took)
			}
			meet(message.TimedOut, test.late)
			everybody := append(append([]int(nil), test.come...), test.late...)
			meet(message.Success, everybody, 1) // a timeout that is not over has no effect
			time.Sleep(2 * time.Second)
			meet(message.Success, everybody)
			for _, rank := range everybody {
				far := (rank >= 2) != (first >= 2) || rank > 2
				if got := fmt.Sprint(keysIn(clients[rank].request(getBody(testSpace, bfrops.Rank(first), "")))); far && got != "[card]" {
					t.Errorf("%s: rank %d gets %s", what, rank, got)
				}
			}
			for _, s := range servers {
				s.mu.Lock()
				if len(s.givenUp) > 0 || s.activeCollectives > 0 {
					t.Errorf("%s: %d fences are kept as late, and %d as under way", what, len(s.givenUp), s.activeCollectives)
				}
				s.mu.Unlock()
				s.Close()
			}
		})
	}
}

// A fence that was given up before a local rank entered is forgotten when its group is removed.
func TestLateFencesGoWithTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, _ := newTestNodes(t, []int{0}, []int{1})
		c := initialized(t, servers[0], 0)
		if got := c.status(lateFence(all, 1)); got != message.TimedOut {
			t.Errorf("answered by %v", got)
		}
		synctest.Wait() // until the other node has received it, too
		kept := func() int {
			servers[1].mu.Lock()
			defer servers[1].mu.Unlock()
			return len(servers[1].givenUp)
		}
		if n := kept(); n != 1 {
			t.Errorf("%d are kept", n)
		}
		if servers[1].RemoveGroup("k"); kept() != 0 {
			t.Error("it stays")
		}
		for _, s := range servers {
			s.Close()
		}
	})
}

// A group whose destruct timed out can be destructed by its ID later: its members are remembered until
// then.
func TestGroupDestructedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, _ := newTestNodes(t, []int{0, 1})
		clients := []*testClient{initialized(t, servers[0], 0), initialized(t, servers[0], 1)}
		both := func(request []byte) (statuses []message.Status) {
			for _, c := range clients {
				c.send(request)
			}
			for _, c := range clients {
				_, answer := c.receive()
				statuses = append(statuses, statusOf(answer))
			}
			return statuses
		}
		both(groupBody("g", all))
		unmake := bfrops.AppendInfos(bfrops.AppendSize(bfrops.AppendText(body(28), "g"), 0), []bfrops.Info{timeoutOf(1)})
		for _, c := range clients { // one after the other: the first has gone when the second comes
			if status := c.status(unmake); status != message.TimedOut {
				t.Errorf("answered by %v", status)
			}
		}
		if got := both(destructBody("g", nil)); got[0] != message.Success || got[1] != message.Success {
			t.Errorf("then by %v", got)
		}
		if got := both(destructBody("g", nil)); got[0] != message.BadParameter || got[1] != message.BadParameter {
			t.Errorf("and what is unmade by %v", got)
		}
		for _, s := range servers {
			s.Close()
		}
	})
}
