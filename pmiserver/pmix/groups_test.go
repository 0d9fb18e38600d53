package pmix

import (
	"fmt"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

// groupBody is a GROUP_CONSTRUCT request that asks for a context ID.
func groupBody(name string, members []bfrops.Proc) []byte {
	return pmixtest.Encode(&message.GroupConstruct{ID: name, Procs: members, Options: message.Options{{Key: "pmix.grp.actxid", Value: bfrops.FlagOf(true)}}})
}

// destructBody is a GROUP_DESTRUCT request as clients of version 5 send it; without members, as those of
// version 4 do.
func destructBody(name string, members []bfrops.Proc) []byte {
	if members == nil {
		return bfrops.AppendSize(bfrops.AppendText(body(28), name), 0)
	}
	return pmixtest.Encode(&message.GroupDestruct{ID: name, Procs: members})
}

// contextIDIn returns the context ID in a reply to a client of version 4.
func contextIDIn(t *testing.T, answer []byte) int64 {
	t.Helper()
	r := bfrops.NewReader(answer)
	status, number := message.Status(r.Status()), int64(r.Size())
	if status != message.Success || r.Err() != nil {
		t.Errorf("%v, %v", status, r.Err())
	}
	return number
}

// PMIx groups with the same members are distinguished by their IDs, in whatever order they are
// constructed. Each has its own context ID, also if all members are on one node. Nothing is kept after
// the group is constructed.
func TestGroupsOfProcesses(t *testing.T) {
	for _, ranks := range [][][]int{{{0, 1}}, {{0}, {1}}} {
		servers, _ := newTestNodes(t, ranks...)
		one, two := initialized(t, servers[0], 0), initialized(t, servers[len(servers)-1], 1)
		for _, members := range [][]bfrops.Proc{all, procs(testSpace, 1, testSpace, 0)} {
			a, b := one.send(groupBody("a", members)), one.send(groupBody("b", members))
			two.send(groupBody("b", members))
			_, second := two.receive()
			two.send(groupBody("a", members))
			_, first := two.receive()
			numbers := map[uint32]int64{a: contextIDIn(t, first), b: contextIDIn(t, second)}
			for range numbers {
				if tag, answer := one.receive(); contextIDIn(t, answer) != numbers[tag] || numbers[a] == numbers[b] {
					t.Errorf("%v: %v, want %v", ranks, contextIDIn(t, answer), numbers)
				}
			}
			for _, listed := range [][]bfrops.Proc{members, nil} {
				name := map[bool]string{true: "a", false: "b"}[listed != nil]
				one.send(destructBody(name, listed))
				if status := two.status(destructBody(name, listed)); status != message.Success {
					t.Errorf("%v: %s is unmade by %v", ranks, name, status)
				}
				one.receive()
			}
			if status := one.status(destructBody("a", nil)); status != message.BadParameter {
				t.Errorf("%v: what was unmade before: %v", ranks, status)
			}
		}
		for _, s := range servers {
			s.mu.Lock()
			if len(s.collectives) > 0 || s.activeCollectives > 0 {
				t.Errorf("%v: %d meetings are left, of which %d are open", ranks, len(s.collectives), s.activeCollectives)
			}
			s.mu.Unlock()
		}
	}
}

// A fence of a group whose member has ended is reported as broken, so that the job ends (PMIX-32).
func TestGroupWhoseMemberEnds(t *testing.T) {
	s, reports := newTestServer(t, 2, 2)
	nodes, _ := newTestNodes(t, []int{0, 1})
	s.OtherNodes = nodes[0].OtherNodes
	c := initialized(t, s, 0)
	c.send(groupBody("g", all))
	c.status(bfrops.AppendInfos(bfrops.AppendStatuses(body(regevents), nil), nil)) // its reply comes after the request before it waits
	s.RankExited("k", 1)
	if got := <-reports; !strings.HasPrefix(got.what, "broken: rank 0 waits in a barrier, but rank 1 has ended") {
		t.Errorf("reported: %v", got)
	}
}

// Without mpiexec, which chooses context IDs, no group is constructed. The members remembered for
// clients of version 4 are bounded.
func TestGroupsWithoutContextIDs(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	c := initialized(t, s, 0)
	if status := c.status(groupBody("g", all)); status != message.NotSupported {
		t.Errorf("without numbers: %v", status)
	}
	r, member := &localRank{}, &client{group: s.groupByName("k"), major: 4}
	for i := range maxMadeGroups + 1 {
		r.rememberGroup(member, &message.GroupConstruct{ID: fmt.Sprint(i), Procs: all})
	}
	r.rememberGroup(member, &message.GroupConstruct{ID: "0", Procs: make([]bfrops.Proc, maxMembers+1)})
	r.rememberGroup(&client{group: member.group, major: 5}, &message.GroupConstruct{ID: "1", Procs: all})
	if len(r.madeGroups) != maxMadeGroups-2 || r.madeMembers != maxMadeGroups-2 {
		t.Errorf("%d groups with %d members", len(r.madeGroups), r.madeMembers)
	}
}
