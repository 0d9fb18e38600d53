package pmix

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A directFetcher fetches from another server directly, without mpiexec, and counts the requests.
type directFetcher struct {
	to      *Server
	fetches atomic.Int32
}

func (x *directFetcher) Fetch(w FetchRequest, answer func([]byte, message.Status)) {
	x.fetches.Add(1)
	x.to.ServeFetch(w, answer)
}

// newPair serves a group of four ranks on two nodes. The first server fetches from the second.
func newPair(t *testing.T) (near, there *Server, fetcher *directFetcher) {
	t.Helper()
	near, _ = newTestServer(t, 4, 2)
	there, reports := newTestServer(t, 4, 0)
	there.RemoveGroup("k")
	g := testGroup(4, 0, reports)
	g.Ranks = []int{2, 3}
	there.AddGroup(g)
	fetcher = &directFetcher{to: there}
	near.Fetcher = fetcher
	return near, there, fetcher
}

func timeoutOf(seconds uint32) bfrops.Info {
	return bfrops.Info{Key: "pmix.timeout", Value: bfrops.Uint32Of(seconds)}
}

// Data that a rank of another node has committed is fetched once, as a whole, however many Gets wait for
// it. The Gets wait as for a rank of this node.
func TestGetOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, there, fetcher := newPair(t)
		a, b, far := initialized(t, near, 0), initialized(t, near, 1), initialized(t, there, 2)
		began := time.Now()
		check := func(what string, c *testClient, tag uint32, keys []string, after time.Duration, fetches int32) {
			t.Helper()
			got, answer := c.receive()
			took, fetched := time.Since(began).Round(time.Second), fetcher.fetches.Load()
			if found := keysIn(answer); got != tag || !slices.Equal(found, keys) || took != after || fetched != fetches {
				t.Errorf("%s: request %d is answered by %q after %v and %d fetches; want %d, %q after %v and %d",
					what, got, found, took, fetched, tag, keys, after, fetches)
			}
			if keys == nil && statusOf(answer) != message.NotFound {
				t.Errorf("%s: %v", what, statusOf(answer))
			}
		}
		first, second := a.send(getBody(testSpace, 2, "card")), b.send(getBody(testSpace, 2, "card"))
		time.Sleep(3 * time.Second) // there is no limit before the first commit
		far.status(commitBody(message.ScopeLocal, "near"))
		far.status(commitBody(message.ScopeRemote, "card", "more"))
		both := []string{"card", "more"}
		check("the first", a, first, both, 3*time.Second, 1)
		check("another one", b, second, both, 3*time.Second, 1)
		check("what came along", b, b.send(getBody(testSpace, 2, "more")), both, 3*time.Second, 1)
		check("what it has not, at once", a, a.send(getBody(testSpace, 2, "x", bfrops.Info{Key: "pmix.immediate", Value: bfrops.FlagOf(true)})), nil, 3*time.Second, 1)
		check("what is for its own node", a, a.send(getBody(testSpace, 2, "near")), nil, 5*time.Second, 2)
		early := a.send(getBody(testSpace, 2, "never", timeoutOf(7)))
		time.Sleep(4 * time.Second)
		late := b.send(getBody(testSpace, 2, "never", timeoutOf(7)))
		check("with a time", a, early, nil, 12*time.Second, 3)
		check("with the same, later", b, late, nil, 16*time.Second, 3)
		began = time.Now()
		gone := a.send(getBody(testSpace, 3, "card"))
		synctest.Wait()
		there.RankExited("k", 3)
		check("of one that ends", a, gone, nil, 0, 4)
		finalized := a.send(getBody(testSpace, 2, "later", timeoutOf(60)))
		synctest.Wait()
		far.status(body(finalize))
		check("of one that finalizes", a, finalized, nil, 0, 5)
		near.Close()
		there.Close()
	})
}

// A wrongFetcher returns data without the requested key.
type wrongFetcher struct{}

func (wrongFetcher) Fetch(w FetchRequest, answer func([]byte, message.Status)) {
	answer(bfrops.AppendPair(nil, "other", bfrops.TextOf("x")), message.Success)
}

// Fetched data without the requested key is NotFound, and is not kept.
func TestFetchThatBringsSomethingElse(t *testing.T) {
	s, _ := newTestServer(t, 4, 1)
	s.Fetcher = wrongFetcher{}
	c := initialized(t, s, 0)
	if got := c.status(getBody(testSpace, 2, "card")); got != message.NotFound {
		t.Errorf("answered by %v", got)
	}
	if g := s.groupByName("k"); g.knownPairs(2, "other") != nil || len(g.remote.inFlight) > 0 {
		t.Error("it is kept")
	}
}

// A silentFetcher never answers.
type silentFetcher struct{}

func (silentFetcher) Fetch(FetchRequest, func([]byte, message.Status)) {}

// The limit of waiting Gets of a rank also covers Gets of other nodes.
func TestFetchesOfARankAreBounded(t *testing.T) {
	s, _ := newTestServer(t, 4, 1)
	s.Fetcher = silentFetcher{}
	c := initialized(t, s, 0)
	s.groupByName("k").findRank(0).gets.Store(maxWaitingGets)
	if got := c.status(getBody(testSpace, 2, "card")); got != message.NoMemory {
		t.Errorf("answered by %v", got)
	}
	if n := s.groupByName("k").findRank(0).gets.Load(); n != maxWaitingGets {
		t.Errorf("%d are counted", n)
	}
}

// When the job or the group ends, Gets of other nodes end, and nothing of them is kept: not even at a
// rank that another group asked for.
func TestGetsEndWithTheGroup(t *testing.T) {
	for what, test := range map[string]struct {
		end  func(s *Server)
		want message.Status
	}{
		"the job is ending":          {(*Server).Freeze, message.Failed},
		"its own group is over":      {func(s *Server) { s.RemoveGroup("other") }, message.Failed},
		"the group asked for is":     {func(s *Server) { s.RemoveGroup("k") }, message.NotFound},
		"an abort in the asked ones": {func(s *Server) { s.freezeGroup(s.groupByName("k")) }, message.Failed},
	} {
		s, reports := newTestServer(t, 4, 1)
		s.Fetcher = silentFetcher{}
		g := testGroup(1, 1, reports)
		g.Name, g.Namespace = "other", testSpace+"1"
		s.AddGroup(g)
		asked := s.groupByName("k")
		c := connectRaw(t, s, handshake(g.Namespace, 0, nil))
		c.welcome()
		for _, rank := range []bfrops.Rank{0, 2} { // of this node, and of another one
			c.send(getBody(testSpace, rank, "card", timeoutOf(1<<30)))
		}
		c.send(bfrops.AppendInfos(bfrops.AppendStatuses(body(regevents), nil), nil)) // its reply comes after the Gets before it wait
		c.receive()
		test.end(s)
		for range 2 {
			if _, answer := c.receive(); statusOf(answer) != test.want {
				t.Errorf("%s: %v, want %v", what, statusOf(answer), test.want)
			}
		}
		if left := asked.takeWaitingGets(true, nil); len(left) > 0 {
			t.Errorf("%s: %d wait", what, len(left))
		}
	}
}
