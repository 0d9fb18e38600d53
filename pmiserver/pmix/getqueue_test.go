package pmix

import (
	"fmt"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/pmix/message"
)

// A commit finds only the Gets of its key, in the order of their arrival. Nothing of a removed Get is
// kept.
func TestGetQueue(t *testing.T) {
	var x getQueue
	var two []*pendingGet
	for i := range maxWaitingGets {
		w := &pendingGet{key: fmt.Sprint("other", i)}
		if i%30000 == 1 {
			w.key = "card"
			two = append(two, w)
		}
		x.addGet(w)
	}
	asked := 0
	got := x.takeByKey("card", func(*pendingGet) bool { asked++; return true })
	if len(got) != len(two) || got[0] != two[0] || got[1] != two[1] || asked != len(two) {
		t.Errorf("%d were asked, and %d are served, not in their order", asked, len(got))
	}
	if x.removeGet(two[0]) {
		t.Error("one that is served gives up")
	}
	for _, some := range x.byKey {
		for w := range some {
			if !x.removeGet(w) {
				t.Fatal("one that waits does not")
			}
		}
	}
	if x.count != 0 || len(x.byKey) != 0 {
		t.Errorf("%d wait, for %d keys", x.count, len(x.byKey))
	}
}

// The limit of waiting Gets counts for each asking rank, so that a rank cannot use up the limit of
// another one.
func TestWaitingGetsAreBoundedPerRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 3, 3)
		greedy, modest, slow := initialized(t, s, 0), initialized(t, s, 1), initialized(t, s, 2)
		never := getBody(testSpace, 2, "never")
		s.groupByName("k").findRank(0).gets.Store(maxWaitingGets - 1)
		greedy.send(never)
		if got := greedy.status(never); got != message.NoMemory {
			t.Errorf("one too many: %v", got)
		}
		modest.send(getBody(testSpace, 2, "card"))
		synctest.Wait()
		slow.status(commitBody(message.ScopeLocal, "card"))
		if _, answer := modest.receive(); statusOf(answer) != message.Success {
			t.Errorf("another rank: %v", statusOf(answer))
		}
		if n := s.groupByName("k").findRank(1).gets.Load(); n != 0 {
			t.Errorf("%d Gets of it are not answered", n)
		}
	})
}

// Many small keys count for the memory of their entries.
func TestKeysCount(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	g := s.groupByName("k")
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	part, rounds := committed(t, keys), 0
	for g.commitPairs(g.findRank(0), part) == message.Success {
		rounds++
	}
	if most := maxRankBytes / (keyOverhead * len(keys)); rounds == 0 || rounds > most {
		t.Errorf("%d commits of %d keys are taken, at most %d may be", rounds, len(keys), most)
	}
}

func committed(t testing.TB, keys []string) []message.CommitPart {
	t.Helper()
	request, err := message.Parse(commitBody(message.ScopeLocal, keys...))
	if err != nil {
		t.Fatal(err)
	}
	return request.(*message.Commit).Parts
}

// BenchmarkCommitWhileManyWait measures a commit while many Gets wait for other keys.
func BenchmarkCommitWhileManyWait(b *testing.B) {
	s, _ := newTestServer(b, 2, 2)
	g := s.groupByName("k")
	for i := range maxWaitingGets {
		g.awaitCommit(g.findRank(0), &pendingGet{asker: g, key: fmt.Sprint("never", i), answer: func([]byte, message.Status) {}}, 1<<40)
	}
	part := committed(b, []string{"card"})
	for b.Loop() {
		g.commitPairs(g.findRank(0), part)
	}
}
