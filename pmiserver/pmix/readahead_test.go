package pmix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

func TestReadSequence(t *testing.T) {
	for what, test := range map[string]struct {
		asked, reach []int
	}{
		"one after the other":        {[]int{0, 1, 3, 6, 11, 20}, []int{0, 1, 2, 4, 8, 16}},
		"beginning anywhere":         {[]int{40, 41, 43}, []int{0, 1, 2}},
		"with a gap as large as was": {[]int{40, 41, 43, 45}, []int{0, 1, 2, 4}},
		"past the last":              {[]int{97, 98, 0, 3}, []int{0, 1, 2, 4}},
		"every second":               {[]int{40, 42, 44, 46}, []int{0, 0, 0, 0}},
		"backwards":                  {[]int{40, 39, 38}, []int{0, 0, 0}},
		"the same again":             {[]int{0, 1, 1}, []int{0, 1, 0}},
		"one, and then elsewhere":    {[]int{40, 41, 70, 71}, []int{0, 1, 0, 1}},
	} {
		var s readSequence
		var reach []int
		of := new(group)
		for _, at := range test.asked {
			reach = append(reach, s.nextCount(of, at, 100))
		}
		if !slices.Equal(reach, test.reach) {
			t.Errorf("%s: counts %v, want %v", what, reach, test.reach)
		}
		if s.nextCount(new(group), s.last+1, 100) != 0 {
			t.Errorf("%s: goes on in another group", what)
		}
	}
	var s readSequence
	of := new(group)
	for at, n := 0, 0; n < 20; n++ {
		at += 1 + s.nextCount(of, at, 1<<20)
	}
	if s.count != maxReadAhead {
		t.Errorf("reaches %d ranks in the end, want %d", s.count, maxReadAhead)
	}
}

// requestAll sends Gets for ranks in their order, as libpmix does: not for ranks whose data it already
// has. It returns the values and the number of Gets.
func (c *testClient) requestAll(ranks []int, key string) (values map[int]string, questions int) {
	c.t.Helper()
	values = make(map[int]string)
	for _, rank := range ranks {
		if values[rank] != "" {
			continue
		}
		answer := c.request(getBody(testSpace, bfrops.Rank(rank), key))
		questions++
		if len(answer) > maxReadAheadBytes {
			c.t.Errorf("rank %d is asked for, and %d bytes are the answer", rank, len(answer))
		}
		r := bfrops.NewReader(answer)
		if status := message.Status(r.Status()); status != message.Success {
			c.t.Fatalf("rank %d: %v", rank, status)
		}
		for r.More() {
			inner := bfrops.NewReader(r.Blob())
			of := inner.Proc()
			for inner.More() {
				if pair := inner.Pair(); pair.Key == key {
					values[int(of.Rank)], _ = pair.Value.Text()
				}
			}
		}
		if values[rank] == "" {
			c.t.Fatalf("rank %d is asked for, and its answer is of %v", rank, slices.Sorted(maps.Keys(values)))
		}
	}
	return values, questions
}

// cardBody is a COMMIT request with one value.
func cardBody(scope message.Scope, key, value string) []byte {
	pairs := bfrops.AppendPair(nil, key, bfrops.TextOf(value))
	return bfrops.AppendBuffer(bfrops.AppendByte(body(commit), uint8(scope)), pairs)
}

// A client that asks for all ranks needs few Gets, whichever ranks are on this node, and gets the right
// data of each.
func TestGetsOfAllRanks(t *testing.T) {
	const size = 64
	nodes := make([][]int, 2)
	for rank := range size {
		nodes[rank%2] = append(nodes[rank%2], rank)
	}
	servers, _ := newTestNodes(t, nodes...)
	clients := make([]*testClient, size)
	for rank := range size {
		clients[rank] = initialized(t, servers[rank%2], rank)
		for _, scope := range []message.Scope{message.ScopeLocal, message.ScopeRemote} {
			clients[rank].status(cardBody(scope, "card", fmt.Sprint("rank ", rank)))
		}
	}
	for _, c := range clients {
		c.send(fenceBody(all, true))
	}
	for _, c := range clients {
		c.receive()
	}
	var ranks []int
	for rank := range size {
		ranks = append(ranks, rank)
	}
	for _, test := range []struct {
		what  string
		ranks []int
		most  int
	}{
		{"those of its node", nodes[0], 7},
		{"all", ranks, 15},
		{"all, itself first", slices.Concat(ranks[30:], ranks[:30]), 17},
	} {
		values, questions := clients[30].requestAll(slices.DeleteFunc(slices.Clone(test.ranks), func(r int) bool { return r == 30 }), "card")
		if questions > test.most {
			t.Errorf("%s: %d questions, want %d at most", test.what, questions, test.most)
		}
		for rank, value := range values {
			if value != fmt.Sprint("rank ", rank) {
				t.Errorf("%s: of rank %d it got %q", test.what, rank, value)
			}
		}
	}
}

// Data that is read ahead stays small, and includes only ranks with the requested key. Nothing is waited
// for.
func TestReadAhead(t *testing.T) {
	const size = 16
	s, _ := newTestServer(t, size, size)
	clients := make([]*testClient, size)
	for rank := range size - 1 { // the last one commits nothing
		clients[rank] = initialized(t, s, rank)
		clients[rank].status(cardBody(message.ScopeLocal, "card", strings.Repeat("x", maxReadAheadBytes/4)))
		if rank%4 == 2 {
			clients[rank].status(cardBody(message.ScopeLocal, "rare", "x"))
		}
	}
	ranks := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
	if values, questions := clients[0].requestAll(ranks, "card"); len(values) != len(ranks) || questions < 5 {
		t.Errorf("of %d ranks a quarter of what an answer may have: %d of them with %d questions", len(ranks), len(values), questions)
	}
	for rank := 1; rank <= 2; rank++ { // the second Get begins a sequence
		answer := clients[rank].request(getBody(testSpace, bfrops.Rank(rank+2), "rare", bfrops.Info{Key: "pmix.immediate", Value: bfrops.FlagOf(true)}))
		if keys := keysIn(answer); keys != nil {
			t.Errorf("of rank %d, without the key, it got %q", rank+2, keys)
		}
	}
	for _, rank := range []bfrops.Rank{5, 6} {
		answer := clients[3].request(getBody(testSpace, rank, "card"))
		if n := strings.Count(fmt.Sprint(keysIn(answer)), "card"); rank == 6 && n != 2 {
			t.Errorf("with rank %d it got data of %d ranks, want 2", rank, n)
		}
	}
	if keys := keysIn(clients[0].request(getBody(testSpace, 10, "rare"))); fmt.Sprint(keys) != "[card rare]" {
		t.Errorf("rank 10 brings %q", keys)
	}
}
