package launch

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/wire"
)

// twoNodes has four ranks: 0 and 1 on a, 2 and 3 on b.
var twoNodes = RankNodes{Nodes: []string{"a", "b"}, NodeOfRank: []int{0, 0, 1, 1}}

func TestMissingLibrary(t *testing.T) {
	for stderr, want := range map[string]string{
		"./a: error while loading shared libraries: libfoo.so.3: cannot open shared object file: No such file or directory\n": "libfoo.so.3",
		"Error loading shared library libbar.so: No such file or directory (needed by ./a)\n":                                 "libbar.so",
		"sh: 1: foo: not found\n": "",
	} {
		if got := missingLibrary(stderr); got != want {
			t.Errorf("%q: %q, want %q", stderr, got, want)
		}
	}
}

func TestForeignCPU(t *testing.T) {
	n := func(name, model string) *Node {
		return &Node{Node: reserve.Node{Node: &node.Node{Def: job.NodeDef{Name: name}}, Probe: &job.Probe{Model: model}}}
	}
	old, young, unknown := n("a", "Old 1"), n("b", "Young 2"), n("c", "")
	if got := otherCPUHint(old, []*Node{old, unknown, young}); got != "the CPU of a is Old 1, but the CPU of b is Young 2" {
		t.Errorf("got %q", got)
	}
	if got := otherCPUHint(old, []*Node{old, unknown, n("d", "Old 1")}); got != "" {
		t.Errorf("all alike: %q", got)
	}
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{"": "", "=== 7 ===\n": "=== 7 ===", "MPI_ABORT was invoked\n-----\n\n": "MPI_ABORT was invoked", "--\nlost: é\n*** 1\n": "lost: é",
		"one\ntwo\n\n": "two", "a\x1b[31mb\r\n": "ab", "lost\n\x1b[31m=====\x1b[0m\n": "lost", strings.Repeat("x", 100): strings.Repeat("x", 80) + "..."} {
		if got := lastLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The usage of orphans counts for their rank or, if that is unknown, for the node.
func TestUsageIsSummedByNode(t *testing.T) {
	a := newRunRecord()
	use := func(user, rss int) job.Usage {
		return job.Usage{Wall: time.Second, User: time.Duration(user) * time.Second, MaxRSS: int64(rss) << 20}
	}
	a.orphans[0] = []job.OrphanUsage{{Rank: 1, Usage: use(5, 64)}, {Rank: -1, Usage: use(100, 3)}}
	exits, hosts := a.totals(twoNodes, []*job.Exit{{Rank: 0, Usage: use(1, 7)}, {Rank: 1, Usage: use(2, 8)}, {Rank: 2, Usage: use(3, 9)}})
	if exits[1].Usage.User != 7*time.Second || exits[1].Usage.MaxRSS != 64<<20 {
		t.Errorf("rank 1: %+v", exits[1].Usage)
	}
	want := []job.NodeTotal{{Node: "a", Ranks: 2, EndedRanks: 2, PeakRank: 1, Usage: use(108, 64)}, {Node: "b", Ranks: 2, EndedRanks: 1, PeakRank: 2, Usage: use(3, 9)}}
	if !reflect.DeepEqual(hosts, want) {
		t.Errorf("got %+v, want %+v", hosts, want)
	}
}

// A runRecord keeps little of each start, and returns all of them in order.
func TestStartsAreInOrder(t *testing.T) {
	a := newRunRecord()
	a.ranksReleased(4)
	on := func(name string) *Node {
		return &Node{Node: reserve.Node{Node: &node.Node{Def: job.NodeDef{Name: name}}}}
	}
	a.addStart(on("b"), &wire.Started{Rank: 2, PID: 1 << 22})
	a.addStart(on("a"), &wire.Started{Rank: 1, Code: 127, Err: "no such file"})
	a.addStart(on("a"), &wire.Started{Rank: 0, PID: 7})
	var got []job.RankStart
	for s := range a.allStarts(twoNodes) {
		if s.SinceStart < 0 {
			t.Errorf("rank %d started %v after it was let go", s.Rank, s.SinceStart)
		}
		s.SinceStart = 0
		got = append(got, s)
	}
	want := []job.RankStart{{Rank: 2, PID: 1 << 22, Node: "b"}, {Rank: 1, Node: "a", Err: "no such file"}, {Rank: 0, PID: 7, Node: "a"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for s := range a.allStarts(twoNodes) { // the caller may stop early
		if s.Rank != 2 {
			t.Errorf("got %+v first", s)
		}
		break
	}
}
