package pmix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmitest"
)

// A refused handshake gets the status of pmix-wire.md, and nothing is reported to the job.
func TestHandshakesThatAreRefused(t *testing.T) {
	for why, test := range map[string]struct {
		namespace string
		rank      uint32
		change    func(*message.Handshake)
		want      message.Status
	}{
		"nobody's namespace":  {"rs-0123456789abcdee-0", 0, nil, message.InvalidCredential},
		"part of a namespace": {testSpace[:10], 0, nil, message.InvalidCredential},
		"no rank of the node": {testSpace, 2, nil, message.InvalidCredential},
		"no rank at all":      {testSpace, 0xfffffffe, nil, message.InvalidCredential},
		"another's word":      {testSpace, 0, func(h *message.Handshake) { h.UID = 0 }, message.InvalidCredential},
		"a tool":              {testSpace, 0, func(h *message.Handshake) { h.Flag = 1 }, message.NotSupported},
		"too old":             {testSpace, 0, func(h *message.Handshake) { h.Encoding = "v20" }, message.NotSupported},
		"described":           {testSpace, 0, func(h *message.Handshake) { h.BufferType = 2 }, message.NotSupported},
		"shared memory":       {testSpace, 0, func(h *message.Handshake) { h.Storage = "ds21,hash" }, message.NotSupported},
	} {
		s, reports := newTestServer(t, 4, 2)
		if got := connectRaw(t, s, handshake(test.namespace, test.rank, test.change)).welcome(); got != test.want {
			t.Errorf("%s: answered by %v, want %v", why, got, test.want)
		}
		s.Close()
		for len(reports) > 0 {
			if h := <-reports; !strings.HasPrefix(h.what, "note: ") {
				t.Errorf("%s: the job hears %q", why, h.what)
			}
		}
	}
}

// A connection whose first bytes are no handshake gets no reply.
func TestNoHandshake(t *testing.T) {
	for why, words := range map[string]string{
		"HTTP":          "GET / HTTP/1.1\r\n\r\n",
		"too long":      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00\x00\x00",
		"32 bits":       "\xff\xff\xff\xff\xff\xff\xff\xff\x33\x00\x00\x00native\x00\x00",
		"not a message": "\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00\x00\x00\x00\x00\x00abc",
	} {
		s, _ := newTestServer(t, 1, 1)
		c := connectRaw(t, s, []byte(words)[:16])
		if len(words) > 16 {
			c.conn.Write([]byte(words)[16:]) // it may be closed already
		}
		if status := c.welcome(); status != message.Failed {
			t.Errorf("%s is answered by %v", why, status)
		}
	}
}

// The owner of the socket, as the kernel tells it, counts more than the uid in the handshake. If the
// kernel does not tell, the namespace decides.
func TestConnectionOwner(t *testing.T) {
	for _, test := range []struct {
		uid  uint32
		err  error
		want message.Status
	}{
		{testUID, nil, message.Success},
		{testUID + 1, nil, message.InvalidCredential},
		{0, nil, message.InvalidCredential},
		{testUID, ErrNoOwner, message.InvalidCredential},
		{0, errors.New("seccomp"), message.Success},
	} {
		s, _ := newTestServer(t, 1, 1)
		s.SocketOwner = func(net.Conn) (uint32, error) { return test.uid, test.err }
		if got := connectRaw(t, s, handshake(testSpace, 0, nil)).welcome(); got != test.want {
			t.Errorf("owner %d, %v: %v, want %v", test.uid, test.err, got, test.want)
		}
	}
}

// The connection accepted first is closed first, in whatever order the goroutines of connections run.
func TestOldestPendingConnIsClosed(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	last := extraPending + s.ranks
	for number := last; number >= 0; number-- { // one too many
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close(); far.Close() })
		s.addPending(pendingConn{near, number}, true)
	}
	if first, end := s.pendingOwn[0].number, s.pendingOwn[len(s.pendingOwn)-1].number; len(s.pendingOwn) != last || first != 1 || end != last {
		t.Errorf("%d wait, from %d to %d; want %d, from 1 to %d", len(s.pendingOwn), first, end, last, last)
	}
}

// Connections that send nothing do not keep ranks out: the oldest is closed when there are too many, and
// each after 5 s.
func TestSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 1, 1)
		var silent []*testClient
		for range 10_000 {
			silent = append(silent, connectRaw(t, s, nil))
			synctest.Wait()
		}
		if status := silent[0].welcome(); status != message.Failed {
			t.Errorf("the oldest is answered by %v", status)
		}
		join(t, s, 0)
		synctest.Wait()
		s.mu.Lock()
		waiting := len(s.pendingOwn)
		s.mu.Unlock()
		if most := extraPending + s.ranks; waiting >= most {
			t.Errorf("%d wait, and at most %d may", waiting, most)
		}
		time.Sleep(handshakeTimeout)
		synctest.Wait()
		if status := silent[9_999].welcome(); status != message.Failed || s.RefusedConns() != 10_000 {
			t.Errorf("the last is answered by %v; %d were refused", status, s.RefusedConns())
		}
		s.Close()
	})
}

// A rank may have 16 connections, and a new one after one of them has ended.
func TestConnectionsOfOneRank(t *testing.T) {
	s, reports := newTestServer(t, 1, 1)
	var clients []*testClient
	for range maxConnsPerRank {
		clients = append(clients, initialized(t, s, 0))
	}
	if got := connectRaw(t, s, handshake(testSpace, 0, nil)).welcome(); got != message.NoMemory {
		t.Errorf("one more is answered by %v", got)
	}
	<-reports // a note of it
	clients[0].status(body(finalize))
	clients[0].conn.Close()
	for got := message.NoMemory; got == message.NoMemory; { // until the server has noticed the close
		got = connectRaw(t, s, handshake(testSpace, 0, nil)).welcome()
	}
}

// No rank leaves a fence before the last one has entered.
func TestFenceOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 3, 3)
		var clients []*testClient
		for rank := range 3 {
			clients = append(clients, initialized(t, s, rank))
		}
		forms := [][]bfrops.Proc{all, procs(testSpace, 2, testSpace, 0, testSpace, 1), all}
		got := make(chan message.Status, 3)
		for rank, c := range clients {
			synctest.Wait()
			if len(got) > 0 {
				t.Fatalf("somebody is let out before rank %d came", rank)
			}
			go func() { got <- c.status(fenceBody(forms[rank], true)) }()
		}
		for range clients {
			if status := <-got; status != message.Success {
				t.Errorf("let out by %v", status)
			}
		}
		s.Close()
	})
}

// A process may be in several fences, and may call the next fence of a set before it has left the last.
func TestSeveralFencesAtOnce(t *testing.T) {
	s, _ := newTestServer(t, 3, 3)
	a, b, c := initialized(t, s, 0), initialized(t, s, 1), initialized(t, s, 2)
	pair := procs(testSpace, 0, testSpace, 1)
	whole, first, second := a.send(fenceBody(all, false)), a.send(fenceBody(pair, false)), a.send(fenceBody(pair, false))
	for _, want := range []uint32{first, second} {
		if status := b.status(fenceBody(pair, false)); status != message.Success {
			t.Fatal(status)
		}
		if tag, answer := a.receive(); tag != want || statusOf(answer) != message.Success {
			t.Errorf("fence %d is answered as %d, %v", want, tag, statusOf(answer))
		}
	}
	c.send(fenceBody(all, false))
	b.send(fenceBody(all, false))
	if tag, _ := a.receive(); tag != whole {
		t.Errorf("fence %d is answered as %d", whole, tag)
	}
}

func TestFencesThatCannotBe(t *testing.T) {
	s, _ := newTestServer(t, 2, 2)
	c := initialized(t, s, 0)
	for why, list := range map[string][]bfrops.Proc{
		"nobody":           nil,
		"no such rank":     procs(testSpace, 0, testSpace, 2),
		"no such group":    procs(testSpace, 0, "rs-0-0", 0),
		"without the rank": procs(testSpace, 1),
	} {
		if got := c.status(fenceBody(list, false)); got != message.BadParameter {
			t.Errorf("%s: %v", why, got)
		}
	}
}

// A fence is reported as broken if the process of a missing rank has ended.
func TestFenceThatARankHasLeft(t *testing.T) {
	s, reports := newTestServer(t, 2, 2)
	initialized(t, s, 0).send(fenceBody(all, false))
	s.RankExited("k", 1)
	if h := <-reports; !strings.Contains(h.what, "rank 0 waits in a barrier, but rank 1 has ended") {
		t.Errorf("the job hears %q", h.what)
	}
}

// A Get returns all data that a rank has committed, in order (PMIX-35).
func TestGetOnTheNode(t *testing.T) {
	s, _ := newTestServer(t, 4, 2)
	a, b := initialized(t, s, 0), initialized(t, s, 1)
	a.status(commitBody(message.ScopeLocal, "one", "two"))
	a.status(commitBody(message.ScopeLocal, "three"))
	a.status(commitBody(message.ScopeRemote, "far"))
	immediate := bfrops.Info{Key: "pmix.immediate", Value: bfrops.FlagOf(true)}
	for key, want := range map[string][]string{"two": {"one", "two", "three"}, "": {"one", "two", "three"}, "far": nil} {
		if got := keysIn(b.request(getBody(testSpace, 0, key, immediate))); !slices.Equal(got, want) {
			t.Errorf("%q brings %q, want %q", key, got, want)
		}
	}
	if got := keysIn(b.request(getBody(testSpace, 3, "pmix.hname"))); !slices.Contains(got, "pmix.lrank") {
		t.Errorf("what is known of rank 3: %q", got)
	}
	for why, request := range map[string][]byte{
		"all of the namespace": getBody(testSpace, bfrops.Wildcard, "pmix.hwlocxml2"),
		"undefined":            getBody(testSpace, bfrops.NoRank, "one"),
		"no such rank":         getBody(testSpace, 4, "one", immediate),
		"no such namespace":    getBody("rs-1-0", 0, "one"),
		"not known":            getBody(testSpace, 1, "pmix.loc"),
		"not brought":          getBody(testSpace, 3, "one", immediate),
	} {
		if got := b.status(request); got != message.NotFound {
			t.Errorf("%s: %v", why, got)
		}
	}
}

// A Get waits for the first commit without limit, and for a later one 2 s or as long as its timeout
// (PMIX-33).
func TestGetThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 2, 2)
		a, b := initialized(t, s, 0), initialized(t, s, 1)
		began := time.Now()
		after := func() time.Duration { return time.Since(began).Round(time.Second) }
		timeout := bfrops.Info{Key: "pmix.timeout", Value: bfrops.Uint32Of(7)}

		early := b.send(getBody(testSpace, 0, "early"))
		never := b.send(getBody(testSpace, 0, "never"))
		patient := b.send(getBody(testSpace, 0, "never", timeout))
		time.Sleep(3 * time.Second)
		a.status(commitBody(message.ScopeLocal, "early"))
		if tag, answer := b.receive(); tag != early || len(keysIn(answer)) != 1 || after() != 3*time.Second {
			t.Errorf("request %d after %v: %q", tag, after(), keysIn(answer))
		}
		if tag, answer := b.receive(); tag != never || statusOf(answer) != message.NotFound || after() != 5*time.Second {
			t.Errorf("request %d after %v: %v", tag, after(), statusOf(answer))
		}
		if tag, answer := b.receive(); tag != patient || statusOf(answer) != message.NotFound || after() != 7*time.Second {
			t.Errorf("request %d after %v: %v", tag, after(), statusOf(answer))
		}
		late := b.send(getBody(testSpace, 0, "late"))
		s.RankExited("k", 0)
		if tag, answer := b.receive(); tag != late || statusOf(answer) != message.NotFound || after() != 7*time.Second {
			t.Errorf("request %d after %v: %v", tag, after(), statusOf(answer))
		}
		s.Close()
	})
}

// An abort is reported before it gets its reply. From then on no rank waits for others, and ranks can
// still finalize (PMIX-64).
func TestAbort(t *testing.T) {
	s, reports := newTestServer(t, 2, 2)
	a, b := initialized(t, s, 0), initialized(t, s, 1)
	request := bfrops.AppendSize(bfrops.AppendText(bfrops.AppendUint32(body(abort), 7), "why"), 0)
	if got := a.status(request); got != message.Success {
		t.Errorf("answered by %v", got)
	}
	select {
	case h := <-reports:
		if h != (reported{0, "abort why"}) {
			t.Errorf("the job hears %v", h)
		}
	default:
		t.Error("the rank is answered before the job hears of it")
	}
	if got := b.status(fenceBody(all, false)); got != message.Failed {
		t.Errorf("a fence after that: %v", got)
	}
	if got := b.status(getBody(testSpace, 0, "never")); got != message.Failed {
		t.Errorf("a Get that would wait: %v", got)
	}
	if got := b.status(body(finalize)); got != message.Success {
		t.Errorf("finalize: %v", got)
	}
}

// An abort by a child process that outlives its rank has no effect. An abort of one group does not
// disturb fences of another one.
func TestAbortsThatEndNobodyHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reports := newTestServer(t, 1, 1)
		g := testGroup(1, 1, reports)
		g.Name, g.Namespace = "l", "rs-other"
		s.AddGroup(g)
		c, other := initialized(t, s, 0), connectRaw(t, s, handshake(g.Namespace, 0, nil))
		other.welcome()
		abortBody := func(text string) []byte {
			return bfrops.AppendSize(bfrops.AppendText(bfrops.AppendUint32(body(abort), 7), text), 0)
		}
		c.status(abortBody("unheard"))
		if got := c.status(fenceBody(all, false)); got != message.Success {
			t.Errorf("a fence after an abort that nobody heard of: %v", got)
		}
		c.status(abortBody("heard"))
		if got := c.status(fenceBody(all, false)); got != message.Failed {
			t.Errorf("a fence after an abort: %v", got)
		}
		if got := other.status(fenceBody(procs(g.Namespace, 0), false)); got != message.Success {
			t.Errorf("a fence of another group: %v", got)
		}
		s.Close()
	})
}

// The end of a connection is reported if it is irregular (pmix-wire.md 10).
func TestEndsOfConnections(t *testing.T) {
	huge := message.AppendHeader(nil, 101, message.MaxMessage+1)
	broken := append(message.AppendHeader(nil, 101, 5), body(commit)[:3]...)
	broken = append(broken, 1, 2) // a command of an impossible count
	for why, test := range map[string]struct {
		do   func(t *testing.T, s *Server)
		want string
	}{
		"never asked": {func(t *testing.T, s *Server) { join(t, s, 0).conn.Close() }, ""},
		"finalized": {func(t *testing.T, s *Server) {
			c := initialized(t, s, 0)
			c.status(body(finalize))
			c.conn.Close()
		}, ""},
		"in between": {func(t *testing.T, s *Server) { initialized(t, s, 0).conn.Close() }, "lost"},
		"one of two": {func(t *testing.T, s *Server) {
			join(t, s, 0)
			initialized(t, s, 0).conn.Close()
		}, ""},
		"a huge message":   {func(t *testing.T, s *Server) { join(t, s, 0).write(huge) }, "junk: the rank sent an invalid PMIx message (a message of 67108865 bytes is too large)"},
		"an empty message": {func(t *testing.T, s *Server) { join(t, s, 0).write(message.AppendHeader(nil, 101, 0)) }, "junk: the rank sent an invalid PMIx message (a message is empty)"},
		"a broken one":     {func(t *testing.T, s *Server) { join(t, s, 0).write(broken) }, ""},
		"broken ones again": {func(t *testing.T, s *Server) {
			c := join(t, s, 0)
			for range maxBadMessages - 1 {
				if got := c.status(body(commit)[:4]); got != message.Malformed {
					t.Errorf("answered by %v", got)
				}
			}
			c.send(body(commit)[:4])
		}, "junk: "},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, reports := newTestServer(t, 1, 1)
			test.do(t, s)
			synctest.Wait()
			var got []string
			for len(reports) > 0 {
				if h := <-reports; !strings.HasPrefix(h.what, "note: ") {
					got = append(got, h.what)
				}
			}
			if text := strings.Join(got, ", "); text != test.want && (test.want != "junk: " || !strings.HasPrefix(text, test.want)) {
				t.Errorf("%s: the job hears %q, want %q", why, text, test.want)
			}
			s.Close()
		})
	}
}

// An unsupported request gets exactly one reply, and DEREGEVENTS none.
func TestUnsupportedRequests(t *testing.T) {
	s, reports := newTestServer(t, 1, 1)
	c := initialized(t, s, 0)
	c.send(body(deregevents))
	for _, command := range []uint8{17, 19, 20, 22, 25, 30, 37, 99, 255} {
		if got := c.status(body(command)); got != message.NotSupported {
			t.Errorf("command %d: %v", command, got)
		}
	}
	if got := c.status(bfrops.AppendInfos(bfrops.AppendStatuses(body(regevents), nil), nil)); got != message.Success {
		t.Errorf("REGEVENTS: %v", got)
	}
	text := bfrops.Info{Key: "pmix.log.stderr", Value: bfrops.TextOf("help")}
	if got := c.status(bfrops.AppendInfos(bfrops.AppendInfos(bfrops.AppendTime(body(logOf), 0), []bfrops.Info{text}), nil)); got != message.Success {
		t.Errorf("LOG: %v", got)
	}
	for h := range reports {
		if h.what == "print: help" {
			break
		}
	}
}

// LOG is not supported if nothing prints the texts.
func TestLogWithoutPrinter(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	s.groupByName("k").Print = nil
	text := bfrops.Info{Key: "pmix.log.stderr", Value: bfrops.TextOf("help")}
	if got := initialized(t, s, 0).status(bfrops.AppendInfos(bfrops.AppendInfos(bfrops.AppendTime(body(logOf), 0), []bfrops.Info{text}), nil)); got != message.NotSupported {
		t.Errorf("LOG: %v", got)
	}
}

// A commit above the limit is refused, and earlier data is kept.
func TestCommitOfTooMuch(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	c := initialized(t, s, 0)
	c.status(commitBody(message.ScopeLocal, "small"))
	pairs := bfrops.AppendPair(nil, "large", bfrops.TextOf(strings.Repeat("x", maxRankBytes)))
	if got := c.status(bfrops.AppendBuffer(bfrops.AppendByte(body(commit), 1), pairs)); got != message.NoMemory {
		t.Errorf("answered by %v", got)
	}
	if got := keysIn(c.request(getBody(testSpace, 0, "small"))); !slices.Equal(got, []string{"small"}) {
		t.Errorf("kept: %q", got)
	}
}

// newTestNodes serves one group on several nodes, with the given ranks on each.
func newTestNodes(t *testing.T, ranks ...[]int) (servers []*Server, nodes []*countedNode) {
	var list, home []int
	for node, here := range ranks {
		list = append(list, node)
		for range here {
			home = append(home, node)
		}
	}
	coordinator, reports := pmitest.NewFenceCoordinator(), make(chan reported, 1<<10)
	coordinator.AddGroup("k", list, home)
	for node, here := range ranks {
		s, _ := newTestServer(t, len(home), 0)
		s.RemoveGroup("k")
		nodes = append(nodes, &countedNode{Exchanger: coordinator.Node(node)})
		s.OtherNodes = nodes[node]
		g := testGroup(len(home), 0, reports)
		g.Ranks = here
		s.AddGroup(g)
		servers = append(servers, s)
	}
	coordinator.ReportGivenUp = func(node int, id fence.ID) {
		if !servers[node].GiveUp(id) {
			nodes[node].GiveUp(id, false)
		}
	}
	return servers, nodes
}

// Data that some ranks have exchanged in a fence of their own reaches the others with the next fence of
// all, and no rank twice.
func TestFenceOfSomeBeforeThatOfAll(t *testing.T) {
	servers, _ := newTestNodes(t, []int{0}, []int{1}, []int{2})
	var clients []*testClient
	for rank, s := range servers {
		clients = append(clients, initialized(t, s, rank))
	}
	meet := func(list []bfrops.Proc, of ...*testClient) {
		t.Helper()
		for _, c := range of {
			c.send(fenceBody(list, true))
		}
		for _, c := range of {
			if _, answer := c.receive(); statusOf(answer) != message.Success {
				t.Fatal(statusOf(answer))
			}
		}
	}
	seen := func(by int) string {
		return fmt.Sprint(keysIn(clients[by].request(getBody(testSpace, 0, ""))))
	}
	want := ""
	for round := range 3 {
		key := fmt.Sprint("round-", round)
		clients[0].status(commitBody(message.ScopeRemote, key))
		before := "[" + want + "]"
		want = strings.TrimSpace(want + " " + key)
		meet(procs(testSpace, 0, testSpace, 1), clients[:2]...)
		if one, two := seen(1), seen(2); one != "["+want+"]" || two != before {
			t.Errorf("round %d: rank 1 gets %s, rank 2 gets %s", round, one, two)
		}
		meet(all, clients...)
		if one, two := seen(1), seen(2); one != "["+want+"]" || two != one {
			t.Errorf("round %d, after all: rank 1 gets %s, rank 2 gets %s", round, one, two)
		}
	}
}

// Two nodes exchange the data that their ranks have committed for other nodes, and nothing else.
func TestFenceOfTwoNodes(t *testing.T) {
	servers, nodes := newTestNodes(t, []int{0, 1}, []int{2})
	clients := []*testClient{initialized(t, servers[0], 0), initialized(t, servers[0], 1), initialized(t, servers[1], 2)}
	for round := range 2 {
		for rank, c := range clients {
			c.status(commitBody(message.ScopeRemote, fmt.Sprint("far-", rank, "-", round)))
			c.status(commitBody(message.ScopeLocal, fmt.Sprint("near-", rank, "-", round)))
			c.send(fenceBody(all, true))
		}
		for _, c := range clients {
			if _, answer := c.receive(); statusOf(answer) != message.Success {
				t.Fatal(statusOf(answer))
			}
		}
	}
	for _, test := range []struct {
		asker, of int
		want      string
	}{
		{0, 2, "[far-2-0 far-2-1]"}, {2, 0, "[far-0-0 far-0-1]"}, {2, 1, "[far-1-0 far-1-1]"}, {0, 1, "[near-1-0 near-1-1]"},
	} {
		if got := fmt.Sprint(keysIn(clients[test.asker].request(getBody(testSpace, bfrops.Rank(test.of), "")))); got != test.want {
			t.Errorf("rank %d gets of rank %d %s, want %s", test.asker, test.of, got, test.want)
		}
	}
	if status := clients[0].status(fenceBody(procs(testSpace, 0, testSpace, 1)[:1], true)); status != message.Success {
		t.Errorf("a fence of one: %v", status)
	}
	if want := []string{"fence:k/0", "fence:k/1"}; !slices.Equal(nodes[0].seen, want) {
		t.Errorf("fences that left their node: %q, want %q", nodes[0].seen, want)
	}
}

// A countedNode counts the fences that leave its node.
type countedNode struct {
	fence.Exchanger
	mu   sync.Mutex
	seen []string
}

func (c *countedNode) Exchange(ctx context.Context, id fence.ID, mine []byte) ([][]byte, error) {
	c.mu.Lock()
	c.seen = append(c.seen, id.String())
	c.mu.Unlock()
	return c.Exchanger.Exchange(ctx, id, mine)
}

// Connections of other users, however many, do not displace connections of ranks.
func TestOtherUsersDisplaceNoRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 1, 1)
		ours := connectRaw(t, s, nil)
		synctest.Wait()
		s.SocketOwner = func(net.Conn) (uint32, error) { return testUID + 1, nil }
		for range 10 * extraPending {
			connectRaw(t, s, nil)
			synctest.Wait()
		}
		ours.write(handshake(testSpace, 0, nil))
		if status := ours.welcome(); status != message.Success {
			t.Errorf("the rank is answered by %v", status)
		}
		s.Close()
	})
}

// Close disconnects all clients, and no client is served after it.
func TestNothingIsUnderWayAfterClose(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	c := join(t, s, 0)
	s.Close()
	if n, err := c.conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("the client hears %d bytes", n)
	}
	if s.runTask(func() { t.Error("a task runs after Close") }) {
		t.Error("a task is taken after Close")
	}
	if len(s.pendingOwn)+len(s.pendingOther)+s.clients > 0 {
		t.Errorf("%d, %d and %d connections are left", len(s.pendingOwn), len(s.pendingOther), s.clients)
	}
}

// A process that outlives its rank may send requests while its group is removed; it enters no
// collective.
func TestNoCollectiveAfterTheGroupEnded(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	join(t, s, 0)
	g := s.groups[0]
	c := &client{server: s, group: g, rank: g.byRank[0]}
	all, err := newProcSet([]bfrops.Proc{{Namespace: testSpace, Rank: bfrops.Wildcard}}, s.groupSize)
	if err != nil {
		t.Fatal(err)
	}
	s.RemoveGroup(g.Name)
	if s.getCollective(fence.PMIxFence, all).addCall(fenceCall{client: c}) {
		t.Error("it meets others")
	}
	s.Close()
}
