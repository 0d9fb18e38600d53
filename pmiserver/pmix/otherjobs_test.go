package pmix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmitest"
)

const serverSpace, clientSpace = "rs-0123456789abcdef@0", "rs-fedcba9876543210@0"

// newTwoJobs serves two jobs that share names: one of two ranks on two nodes, and one of one rank. It returns the servers
// of the three nodes.
func newTwoJobs(t *testing.T, names *nameTable) (servers [3]*Server) {
	t.Helper()
	coordinator, reports := pmitest.NewFenceCoordinator(), make(chan reported, 1<<10)
	coordinator.AddGroup("job-1", []int{0, 1}, []int{0, 1})
	for i := range servers {
		s, _ := newTestServer(t, 1, 0)
		s.RemoveGroup("k")
		s.Names, s.SharesNames = names, true
		g := testGroup(2, 0, reports)
		g.Name, g.Namespace, g.Ranks = "job-1", serverSpace, []int{i}
		nodes, nodeOf := []jobinfo.Node{{Name: "n1"}, {Name: "n2"}}, []int{0, 1}
		if i == 2 {
			g.Name, g.Namespace, g.Ranks, g.Size = "job-2", clientSpace, []int{0}, 1
			nodes, nodeOf = []jobinfo.Node{{Name: "n3"}}, []int{0}
		} else {
			s.OtherNodes = coordinator.Node(i)
		}
		g.Job = func(context.Context) (jobinfo.Job, error) {
			return jobinfo.Job{Namespace: g.Namespace, Nodes: nodes, NodeOf: nodeOf, Apps: []int{len(nodeOf)}, Universe: 4, FullUpTo: jobinfo.FullRanks}, nil
		}
		s.AddGroup(g)
		servers[i] = s
	}
	return servers
}

// Processes of two jobs connect by published names, get each other's job info and data, enter a fence, and disconnect. No
// name is left, and they may do so again.
func TestConnectOfTwoJobs(t *testing.T) {
	names := newNameTable()
	servers := newTwoJobs(t, names)
	everybody := []*testClient{connectInNamespace(t, servers[0], serverSpace, 0), connectInNamespace(t, servers[1], serverSpace, 1), connectInNamespace(t, servers[2], clientSpace, 0)}
	for i, c := range everybody {
		keys := []string{[]string{"server 0", "server 1", "client"}[i]}
		for n := range 2 * maxPieceBytes / 400 {
			keys = append(keys, fmt.Sprint(strings.Repeat("x", 400), n))
		}
		if got := c.status(commitBody(message.ScopeRemote, keys...)); got != message.Success {
			t.Fatal(got)
		}
	}
	both := procs(clientSpace, 0, serverSpace, 0, serverSpace, 1)
	for round := range 2 {
		for _, command := range []uint8{10, fenceOf, 11} {
			for _, c := range everybody {
				c.send(bfrops.AppendInfos(bfrops.AppendProcs(body(command), both), nil))
			}
			for i, c := range everybody {
				_, answer := c.receive()
				r := bfrops.NewReader(answer)
				if status := message.Status(r.Status()); status != message.Success {
					t.Fatalf("round %d, command %d: %v", round, command, status)
				}
				if command != 10 {
					continue
				}
				other := bfrops.NewReader(r.Blob()).Namespace()
				if want := []string{clientSpace, clientSpace, serverSpace}[i]; other != want || r.More() {
					t.Errorf("client %d is connected to %q, want %q", i, other, want)
				}
			}
			if command != 10 {
				continue
			}
			for what, got := range map[string][]string{
				"client":   keysIn(everybody[1].request(getBody(clientSpace, 0, "client"))),
				"server 1": keysIn(everybody[2].request(getBody(serverSpace, 1, "server 1"))),
			} {
				if !slices.Contains(got, what) || !slices.Contains(got, "pmix.job.size") {
					t.Errorf("of %s is got %q", what, got)
				}
			}
			if got := everybody[2].status(getBody(serverSpace, 1, "nothing")); got != message.NotFound {
				t.Errorf("a key that is not there: %v", got)
			}
		}
		if got := everybody[2].status(getBody(serverSpace, 1, "server 1")); got != message.NotFound {
			t.Errorf("after the disconnect: %v", got)
		}
	}
	if len(names.names) != 2 { // one of each job lasts until the job ends
		t.Errorf("%d names are left", len(names.names))
	}
}

// A job that has ended lets nobody wait for ever, whether it has used names before or not.
func TestConnectToEndedJob(t *testing.T) {
	for _, seen := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{}
			s.makeReady()
			names := newNameTable()
			s.Names = names
			if seen {
				names.Publish(t.Context(), presenceOf("other"), Name{Port: "here"})
			}
			began, ended := time.Now(), make(chan error, 1)
			go func() {
				_, err := s.receiveFromLiving("other", "data")
				ended <- err
			}()
			most := joinWithin + 2*presenceEvery
			if seen {
				time.Sleep(10 * joinWithin)
				synctest.Wait()
				if len(ended) > 0 {
					t.Fatalf("a job that lives: %v", <-ended)
				}
				names.Unpublish(t.Context(), presenceOf("other"))
				began, most = time.Now(), 3*presenceEvery
			}
			if err := <-ended; !errors.Is(err, errJobEnded) || time.Since(began) > most {
				t.Errorf("seen %v: %v after %v", seen, err, time.Since(began))
			}
		})
	}
}

// Without shared names, or with a namespace of no job, nobody connects.
func TestConnectToNoJob(t *testing.T) {
	servers := newTwoJobs(t, newNameTable())
	c := connectInNamespace(t, servers[2], clientSpace, 0)
	connect := func(space string) []byte {
		return bfrops.AppendInfos(bfrops.AppendProcs(body(10), procs(clientSpace, 0, space, 0)), nil)
	}
	if got := c.status(connect("junk")); got != message.BadParameter {
		t.Errorf("%v", got)
	}
	servers[2].SharesNames = false
	if got := c.status(connect(serverSpace)); got != message.BadParameter {
		t.Errorf("%v", got)
	}
}

// A server keeps the groups of the newest jobs only, however many connect and never disconnect.
func TestOtherJobsAreBounded(t *testing.T) {
	s := newTwoJobs(t, newNameTable())[2]
	for i := range maxOtherJobs + 10 {
		s.useForeignGroups("connect", []groupRecord{{Namespace: fmt.Sprintf("rs-%d@0", i), Nodes: []jobinfo.Node{{}}, NodeOf: []int{0}, Apps: []int{1}}})
	}
	if len(s.groups) != 1+maxOtherJobs || s.groupByNamespace("rs-9@0") != nil || s.groupByNamespace("rs-10@0") == nil || s.groupByName("job-2") == nil {
		t.Errorf("%d groups", len(s.groups))
	}
}

func validRecords() []groupRecord {
	pair := bfrops.AppendPair(nil, "k", bfrops.TextOf("v"))
	return []groupRecord{{Namespace: serverSpace, Universe: 4, Nodes: []jobinfo.Node{{Name: "n1"}}, NodeOf: []int{0, 0}, Apps: []int{2}, Data: map[int][]byte{1: pair}}}
}

// What another job sends is used only if it is consistent, and about that job.
func TestHostileJob(t *testing.T) {
	for what, spoil := range map[string]func(*groupRecord){
		"":                   func(*groupRecord) {},
		"other namespace":    func(r *groupRecord) { r.Namespace = clientSpace },
		"no ranks":           func(r *groupRecord) { r.NodeOf, r.Apps, r.Data = nil, nil, nil },
		"no such node":       func(r *groupRecord) { r.NodeOf[0] = 1 },
		"negative node":      func(r *groupRecord) { r.NodeOf[0] = -1 },
		"node without ranks": func(r *groupRecord) { r.Nodes = append(r.Nodes, jobinfo.Node{}) },
		"long node":          func(r *groupRecord) { r.Nodes[0].Name = strings.Repeat("n", 256) },
		"app of none":        func(r *groupRecord) { r.Apps = []int{3, -1} },
		"too few":            func(r *groupRecord) { r.Apps = []int{1} },
		"no such rank":       func(r *groupRecord) { r.Data[2] = nil },
		"negative rank":      func(r *groupRecord) { r.Data[-1] = nil },
		"junk data":          func(r *groupRecord) { r.Data[0] = []byte("junk") },
		"universe":           func(r *groupRecord) { r.Universe = -1 },
		"earlier ranks":      func(r *groupRecord) { r.Nodes[0].EarlierRanks = -1 },
	} {
		records := validRecords()
		spoil(&records[0])
		text, err := json.Marshal(records)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeJob(text, []string{serverSpace}); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
	twice, _ := json.Marshal(slices.Repeat(validRecords(), 2))
	if _, err := decodeJob(twice, []string{serverSpace, "rs-0123456789abcdef@1"}); err == nil {
		t.Error("a group twice")
	}
	names, s := newNameTable(), newTwoJobs(t, newNameTable())[2]
	s.Names = names
	for what, piece := range map[string]string{"huge": "\xff\xff\xff\xff\x7f", "no length": "\xff", "empty": ""} {
		names.Publish(t.Context(), what+"-0", Name{Port: piece, Once: true})
		if text, err := s.receiveFromJob(t.Context(), what); err == nil {
			t.Errorf("%s: %q", what, text)
		}
	}
	if err := s.sendToJob(t.Context(), "long", make([]byte, maxJobBytes+1)); err == nil {
		t.Error("more than may be sent is sent")
	}
}

// FuzzJob: whatever another job sends is refused, or its job info and data can be encoded for ranks.
func FuzzJob(f *testing.F) {
	good, _ := json.Marshal(validRecords())
	for _, text := range []string{string(good), "", "null", "[]", "[{}]", `[{"Namespace":"` + serverSpace + `","NodeOf":[0],"Nodes":[{}],"Apps":[1]}]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		groups, err := decodeJob(text, []string{serverSpace})
		if err != nil {
			return
		}
		s := &Server{}
		s.makeReady()
		s.useForeignGroups("connect", groups)
		g := s.groupByNamespace(serverSpace)
		view, info, err := g.loadJobInfo(t.Context())
		if err != nil || !arePairs(info) {
			t.Fatalf("%+v: %v", groups, err)
		}
		if pairs := view.Rank(rand.IntN(g.Size)); !arePairs(pairs) {
			t.Fatalf("%+v", groups)
		}
	})
}

// A rank that has found the port of another job, and then waits for a name of that port, waits no longer when that job has
// ended. Other waits go on.
func TestWaitForNameOfEndedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := newNameTable()
		servers := newTwoJobs(t, names)
		server, client, third := connectInNamespace(t, servers[0], serverSpace, 0), connectInNamespace(t, servers[2], clientSpace, 0), connectInNamespace(t, servers[1], serverSpace, 1)
		if got := server.status(publishBody(bfrops.Info{Key: "svc", Value: bfrops.TextOf("123.0:4")})); got != message.Success {
			t.Fatal(got)
		}
		for _, c := range []*testClient{client, third} {
			if texts, _ := foundIn(c.request(lookupBody([]string{"svc"}))); len(texts) != 1 {
				t.Fatal("the name is not found")
			}
		}
		waits := bfrops.Info{Key: "pmix.wait", Value: bfrops.FlagOf(true)}
		for _, c := range []*testClient{client, third} {
			c.send(lookupBody([]string{"123.0:4:accept"}, waits))
		}
		time.Sleep(10 * presenceEvery)
		synctest.Wait()
		ended := time.Now()
		ownJob, _ := jobOf(serverSpace)
		names.Unpublish(t.Context(), presenceOf(ownJob))
		_, answer := client.receive()
		if got := statusOf(answer); got != message.Failed || time.Since(ended) > 3*presenceEvery {
			t.Errorf("%v after %v", got, time.Since(ended))
		}
		time.Sleep(10 * presenceEvery)
		names.Publish(t.Context(), "123.0:4:accept", Name{Port: "p"})
		if _, answer := third.receive(); statusOf(answer) != message.Success { // the job's own port
			t.Errorf("a wait for its own job: %v", statusOf(answer))
		}
	})
}

// failingNames are names of which no other job gets any, until works is set.
type failingNames struct {
	*nameTable
	works atomic.Bool
}

func (n *failingNames) Await(ctx context.Context, service string) (Name, error) {
	if !n.works.Load() {
		return Name{}, errors.New("it does not work")
	}
	return n.nameTable.Await(ctx, service)
}

// After a CONNECT that failed, the next one of the same processes succeeds.
func TestConnectAfterFailedConnect(t *testing.T) {
	names := &failingNames{nameTable: newNameTable()}
	servers := newTwoJobs(t, newNameTable())
	for _, s := range servers {
		s.Names = names
	}
	both := procs(clientSpace, 0, serverSpace, 0, serverSpace, 1)
	clients := []*testClient{connectInNamespace(t, servers[0], serverSpace, 0), connectInNamespace(t, servers[1], serverSpace, 1), connectInNamespace(t, servers[2], clientSpace, 0)}
	for _, want := range []message.Status{message.TimedOut, message.Success} {
		for _, c := range clients {
			c.send(bfrops.AppendInfos(bfrops.AppendProcs(body(10), both), nil))
		}
		for i, c := range clients {
			if _, answer := c.receive(); statusOf(answer) != want {
				t.Errorf("client %d: %v, want %v", i, statusOf(answer), want)
			}
		}
		names.works.Store(true)
	}
}
