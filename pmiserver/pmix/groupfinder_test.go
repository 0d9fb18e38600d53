package pmix

import (
	"context"
	"errors"
	"slices"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmitest"
)

const parentSpace, childSpace = testSpace, "rs-0123456789abcdef-1"

// remoteGroups is two nodes with one group each. Each node finds the other group through FindGroup;
// asked counts the calls.
type remoteGroups struct {
	groups [2]Group
	asked  func(space string)
}

func (n *remoteGroups) Namespace(group string) string { return parentSpace }

func (n *remoteGroups) FindGroup(_ context.Context, space string) (Group, error) {
	if n.asked != nil {
		n.asked(space)
	}
	for _, g := range n.groups {
		if g.Namespace == space {
			g.Ranks = nil
			return g, nil
		}
	}
	return Group{}, errors.New("there is no such group")
}

// newRemoteGroups serves a group of two parents on one node, and a group of one child on another.
func newRemoteGroups(t *testing.T) (all *remoteGroups, servers [2]*Server) {
	t.Helper()
	coordinator, reports := pmitest.NewFenceCoordinator(), make(chan reported, 1<<10)
	all = &remoteGroups{groups: [2]Group{testGroup(2, 2, reports), testGroup(1, 1, reports)}}
	all.groups[1].Name, all.groups[1].Namespace = "k_1", childSpace
	for i := range servers {
		s, _ := newTestServer(t, 1, 0)
		s.RemoveGroup("k")
		coordinator.AddGroup(all.groups[i].Name, []int{i}, slices.Repeat([]int{i}, all.groups[i].Size))
		s.OtherNodes, s.GroupFinder = coordinator.Node(i), all
		s.AddGroup(all.groups[i])
		servers[i] = s
	}
	return all, servers
}

// connectInNamespace returns a client that has authenticated as a rank of a namespace.
func connectInNamespace(t *testing.T, s *Server, space string, rank uint32) *testClient {
	t.Helper()
	c := connectRaw(t, s, handshake(space, rank, nil))
	if status := c.welcome(); status != message.Success {
		t.Fatalf("rank %d of %s is welcomed by %v", rank, space, status)
	}
	return c
}

// Parents and children on different nodes connect. They get the job info of each other's groups and the
// data each rank has committed. Then they enter fences of both groups (PMIX-45).
func TestConnectOfTwoNodes(t *testing.T) {
	_, servers := newRemoteGroups(t)
	parents := []*testClient{connectInNamespace(t, servers[0], parentSpace, 0), connectInNamespace(t, servers[0], parentSpace, 1)}
	child := connectInNamespace(t, servers[1], childSpace, 0)
	everybody := []*testClient{parents[0], parents[1], child}
	for i, c := range everybody {
		c.status(commitBody(message.ScopeRemote, []string{"parent 0", "parent 1", "child"}[i]))
	}
	both := procs(childSpace, bfrops.Wildcard, parentSpace, 0, parentSpace, 1)
	for _, command := range []uint8{10, fenceOf, 11} {
		for _, c := range everybody {
			c.send(bfrops.AppendInfos(bfrops.AppendProcs(body(command), both), nil))
		}
		for i, c := range everybody {
			_, answer := c.receive()
			r := bfrops.NewReader(answer)
			if status := message.Status(r.Status()); status != message.Success {
				t.Fatalf("command %d: %v", command, status)
			}
			if command != 10 {
				continue
			}
			other := bfrops.NewReader(r.Blob()).Namespace()
			if want := []string{childSpace, childSpace, parentSpace}[i]; other != want || r.More() {
				t.Errorf("client %d is connected to %q, want %q", i, other, want)
			}
		}
	}
	for what, got := range map[string][]string{
		"child":    keysIn(parents[1].request(getBody(childSpace, 0, "child"))),
		"parent 1": keysIn(child.request(getBody(parentSpace, 1, "parent 1"))),
	} {
		if !slices.Contains(got, what) || !slices.Contains(got, "pmix.job.size") {
			t.Errorf("of %s is got %q", what, got)
		}
	}
	if got := keysIn(child.request(getBody(parentSpace, bfrops.Wildcard, "pmix.job.size"))); !slices.Contains(got, "pmix.job.size") {
		t.Errorf("of the other group is got %q", got)
	}
}

// A search for a group that does not exist does not block. A group that has ended is removed, also if it
// ends during the search. No client can authenticate as a rank of another node.
func TestRemoteGroups(t *testing.T) {
	all, servers := newRemoteGroups(t)
	s := servers[0]
	parent := connectInNamespace(t, s, parentSpace, 0)
	size := getBody(childSpace, bfrops.Wildcard, "pmix.job.size")
	if got := parent.status(getBody("rs-0123456789abcdef-2", bfrops.Wildcard, "pmix.job.size")); got != message.NotFound {
		t.Errorf("a group that is none: %v", got)
	}
	all.asked = func(string) { s.RemoveGroup("k_1") }
	if got := parent.status(size); got != message.NotFound || s.groupByName("k_1") != nil {
		t.Errorf("a group that is over meanwhile: %v", got)
	}
	asked := 0
	all.asked = func(string) { asked++ }
	for range 3 {
		if got := parent.status(size); got != message.Success {
			t.Errorf("a group elsewhere: %v", got)
		}
	}
	if got := connectRaw(t, s, handshake(childSpace, 0, nil)).welcome(); got != message.InvalidCredential {
		t.Errorf("a rank of another node is welcomed by %v", got)
	}
	s.RemoveGroup("k_1")
	if got := parent.status(size); got != message.Success || asked != 2 {
		t.Errorf("%v after %d questions, want 2", got, asked)
	}
	if len(s.search.ended) > 0 || s.search.clients > 0 {
		t.Errorf("%+v stays", s.search)
	}
}
