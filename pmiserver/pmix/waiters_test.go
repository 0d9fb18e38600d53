package pmix

import (
	"fmt"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/pmix/message"
)

// Whoever waits for other keys costs nothing to who commits one, and those who wait for that are served in their
// order. Nothing stays of who gives up.
func TestWaiters(t *testing.T) {
	var x waiters
	var two []*pendingGet
	for i := range maxWaiting {
		w := &pendingGet{key: fmt.Sprint("other", i)}
		if i%30000 == 1 {
			w.key = "card"
			two = append(two, w)
		}
		x.add(w)
	}
	asked := 0
	got := x.take("card", func(*pendingGet) bool { asked++; return true })
	if len(got) != len(two) || got[0] != two[0] || got[1] != two[1] || asked != len(two) {
		t.Errorf("%d were asked, and %d are served, not in their order", asked, len(got))
	}
	if x.drop(two[0]) {
		t.Error("one that is served gives up")
	}
	for _, some := range x.of {
		for w := range some {
			if !x.drop(w) {
				t.Fatal("one that waits does not")
			}
		}
	}
	if x.many != 0 || len(x.of) != 0 {
		t.Errorf("%d wait, for %d keys", x.many, len(x.of))
	}
}

// Of Gets so many may wait for each rank that asks, on whichever rank it waits: no other one is kept from it.
func TestAGreedyRankKeepsNobodyFromWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 3, 3)
		greedy, modest, slow := initialized(t, s, 0), initialized(t, s, 1), initialized(t, s, 2)
		never := getBody(testSpace, 2, "never")
		s.named("k").rank(0).gets.Store(maxWaiting - 1)
		greedy.say(never)
		if got := greedy.status(never); got != message.TooMuch {
			t.Errorf("one too many: %v", got)
		}
		modest.say(getBody(testSpace, 2, "card"))
		synctest.Wait()
		slow.status(commitBody(message.Local, "card"))
		if _, answer := modest.hear(); statusOf(answer) != message.Success {
			t.Errorf("another rank: %v", statusOf(answer))
		}
		if n := s.named("k").rank(1).gets.Load(); n != 0 {
			t.Errorf("%d Gets of it are not answered", n)
		}
	})
}

// Many small keys count for what it takes to find them.
func TestKeysCount(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	g := s.named("k")
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	part, rounds := committed(t, keys), 0
	for g.commit(g.rank(0), part) == message.Success {
		rounds++
	}
	if most := maxCommitted / (keyRoom * len(keys)); rounds == 0 || rounds > most {
		t.Errorf("%d commits of %d keys are taken, at most %d may be", rounds, len(keys), most)
	}
}

func committed(t testing.TB, keys []string) []message.Part {
	t.Helper()
	request, err := message.Parse(commitBody(message.Local, keys...))
	if err != nil {
		t.Fatal(err)
	}
	return request.(*message.Commit).Parts
}

// What a commit costs while so many wait for something else.
func BenchmarkCommitWhileManyWait(b *testing.B) {
	s, _ := newTestServer(b, 2, 2)
	g := s.named("k")
	for i := range maxWaiting {
		g.await(g.rank(0), &pendingGet{asker: g, key: fmt.Sprint("never", i), answer: func([]byte, message.Status) {}}, 1<<40)
	}
	part := committed(b, []string{"card"})
	for b.Loop() {
		g.commit(g.rank(0), part)
	}
}
