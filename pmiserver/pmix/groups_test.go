package pmix

import (
	"fmt"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

// groupBody asks for a group to be made, with a number.
func groupBody(name string, members []bfrops.Proc) []byte {
	return pmixtest.Encode(&message.GroupConstruct{ID: name, Procs: members, Options: message.Options{{Key: "pmix.grp.actxid", Value: bfrops.FlagOf(true)}}})
}

// unmakeBody asks for a group to be unmade, as clients of 5 do or, without members, as those of 4.
func unmakeBody(name string, members []bfrops.Proc) []byte {
	if members == nil {
		return bfrops.AppendSize(bfrops.AppendText(body(28), name), 0)
	}
	return pmixtest.Encode(&message.GroupDestruct{ID: name, Procs: members})
}

// numberIn is the number of a group in an answer to a client of 4.
func numberIn(t *testing.T, answer []byte) int64 {
	t.Helper()
	r := bfrops.NewReader(answer)
	status, number := message.Status(r.Status()), int64(r.Size())
	if status != message.Success || r.Err() != nil {
		t.Errorf("%v, %v", status, r.Err())
	}
	return number
}

// Groups of the same members are told apart by their names, in whatever order they are made; each has a
// number of its own, also where all members are on one node. Nothing is left of those that were made.
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
			numbers := map[uint32]int64{a: numberIn(t, first), b: numberIn(t, second)}
			for range numbers {
				if tag, answer := one.receive(); numberIn(t, answer) != numbers[tag] || numbers[a] == numbers[b] {
					t.Errorf("%v: %v, want %v", ranks, numberIn(t, answer), numbers)
				}
			}
			for _, listed := range [][]bfrops.Proc{members, nil} {
				name := map[bool]string{true: "a", false: "b"}[listed != nil]
				one.send(unmakeBody(name, listed))
				if status := two.status(unmakeBody(name, listed)); status != message.Success {
					t.Errorf("%v: %s is unmade by %v", ranks, name, status)
				}
				one.receive()
			}
			if status := one.status(unmakeBody("a", nil)); status != message.BadParameter {
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

// Whoever waits for a member of a group that has ended is not left alone: the job ends (PMIX-32).
func TestGroupWhoseMemberEnds(t *testing.T) {
	s, told := newTestServer(t, 2, 2)
	nodes, _ := newTestNodes(t, []int{0, 1})
	s.OtherNodes = nodes[0].OtherNodes
	c := initialized(t, s, 0)
	c.send(groupBody("g", all))
	c.status(bfrops.AppendInfos(bfrops.AppendStatuses(body(regevents), nil), nil)) // is answered when it waits
	s.RankExited("k", 1)
	if got := <-told; !strings.HasPrefix(got.what, "broken: rank 0 waits in a barrier that rank 1 has left") {
		t.Errorf("told: %v", got)
	}
}

// Where nobody has numbers no group is made, and what a client of 4 does not name again is bounded.
func TestGroupsThatAreNotMade(t *testing.T) {
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
