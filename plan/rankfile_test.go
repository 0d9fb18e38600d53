package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// parseFixedPlacements parses "a/0-1 b/p4 a": nodes are a, b, c in the order of the cluster.
func parseFixedPlacements(t *testing.T, text string) []job.FixedPlacement {
	t.Helper()
	var all []job.FixedPlacement
	for _, word := range strings.Fields(text) {
		node, cpus, hasCPUs := strings.Cut(word, "/")
		placement := job.FixedPlacement{Node: int(node[0] - 'a'), Position: job.SourcePosition{File: "ranks", Line: len(all) + 1, Col: 1, Source: word}}
		if hasCPUs {
			var err error
			if placement.Picks, err = pin.ParseCPURanges(cpus); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, placement)
	}
	return all
}

// Ranks run where the rank file says, or there is no plan.
func TestFixed(t *testing.T) {
	over := job.Placement{Overbook: true}
	tests := []struct {
		name, cluster, file string
		placing             job.Placement
		apps                []job.App
		want                string
	}{
		{"as written", "a:4 b:2", "a/3 b/0-1 a/0", job.Placement{}, nil, "a:3 b:0,1 a:0"},
		{"nodes alone", "a:2 b:2", "b a b", job.Placement{}, nil, "b:0 a:0 b:1"},
		{"several programs", "a:4 b:2", "a/3 b/0 b/1", job.Placement{}, []job.App{{N: 1}, {N: 2}}, "a:3 b:0 b:1"},
		{"the others run elsewhere", "a:4 b:2", "a/3 b/0", job.Placement{}, []job.App{{N: 1}, {N: 1, Hosts: []string{"a"}}},
			"ranks:2:1: rank 1 cannot run on b: its program may use only a"},
		{"wide ones", "a:4", "a a", job.Placement{}, []job.App{{N: 2, RankNeeds: job.RankNeeds{CPUsPerRank: 2}}}, "a:0,1 a:2,3"},
		{"too wide", "a:4", "a a", job.Placement{}, []job.App{{N: 2, RankNeeds: job.RankNeeds{CPUsPerRank: 3}}},
			"ranks:2:1: rank 1 needs 3 slots on a; free slots: 1"},
		{"a CPU that is not there", "a:4 b:2", "a/0 b/2", job.Placement{}, nil, "ranks:2:1: rank 1: b: the host has no slot 2; it has 0-1"},
		{"the same CPU", "a:4", "a/0-1 a/1", job.Placement{}, nil, "ranks:2:1: the rank file gives CPU 1 of a to both rank 0 and rank 1"},
		{"the same CPU, and it is welcome", "a:4", "a/0-1 a/1", over, nil, "a:0,1 a:1"},
		{"a full node", "a:1 b:1", "a a", job.Placement{}, nil, "ranks:2:1: rank 1 needs 1 slot on a; free slots: 0"},
		{"a full node, and it is welcome", "a:1 b:1", "a a", over, nil, "a:0 a:0"},
		{"a limit", "a:4 b:4", "a/0 b/0 a/1", job.Placement{}, []job.App{{N: 3, RankNeeds: job.RankNeeds{PerNode: 1}}},
			"ranks:3:1: rank 2 does not fit on a: -ppn allows only 1 rank on this host"},
		{"without a place", "a:4", "a/0", job.Placement{}, []job.App{{N: 2}}, "the rank file does not place rank 1"},
	}
	for _, test := range tests {
		apps := test.apps
		if apps == nil {
			apps = []job.App{{N: len(strings.Fields(test.file))}}
		}
		req, snap := requestFor(job.Request{Apps: apps, Placement: test.placing, FixedPlacements: parseFixedPlacements(t, test.file)}, cluster(test.cluster))
		p, err := Make(req, snap)
		got := boundRanks(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = failed.Text
		}
		if got != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
		if failed != nil && !failed.Permanent {
			t.Errorf("%s: %v could be helped by waiting", test.name, failed)
		}
	}
}

// boundRanks formats the node and CPUs of every rank, in order.
func boundRanks(p job.Plan) string {
	ranks := make([]string, p.Size)
	for _, n := range p.Nodes {
		for _, r := range n.Ranks {
			cpus := strings.ReplaceAll(strings.Trim(fmt.Sprint(r.CPUs), "[]"), " ", ",")
			ranks[r.Rank] = n.Name + ":" + cpus
		}
	}
	return strings.Join(ranks, " ")
}

// A placement on a busy, unreachable or reserved node is refused with its line and the reason. Waiting may
// help.
func TestFixedUnavailable(t *testing.T) {
	for placement, want := range map[string]string{
		"a/1": "ranks:1:1: rank 0: CPU 1 of a is in use by another job",
		"b/0": "ranks:1:1: rank 0 cannot run on b: unreachable: no answer",
		"c/0": "ranks:1:1: rank 0 cannot run on c: another job uses the host exclusively",
		"c":   "ranks:1:1: rank 0 cannot run on c: another job uses the host exclusively",
	} {
		req, snap := requestFor(job.Request{Apps: []job.App{{N: 1}}, FixedPlacements: parseFixedPlacements(t, placement)}, cluster("a:2 b:2 c:2"))
		snap.Nodes[0].Occupancy = job.Occupancy{Ranks: 1, BusyCPUs: []int{1}}
		snap.Nodes[1].Down = "no answer"
		snap.Nodes[2].ExclusivelyHeld = true
		_, err := Make(req, snap)
		var failed *Error
		if !errors.As(err, &failed) || failed.Text != want || failed.Permanent || !strings.Contains(err.Error(), "\n  1 | "+placement) || failed.Hint() != "use --wait to wait for other jobs to end" {
			t.Errorf("%s: %v; want %s", placement, err, want)
		}
	}
}

// A rank file cannot name a CPU that is reserved for the operating system.
func TestFixedReservedCPU(t *testing.T) {
	req, snap := requestFor(job.Request{Apps: []job.App{{N: 1}}, FixedPlacements: parseFixedPlacements(t, "a/3")}, cluster("a:4"))
	req.Reserve = 1
	_, err := Make(req, snap)
	if want := "rank 0: CPU 3 of a is reserved; ranks may use 0-2"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A rank file gives a plan that follows it, or none.
func TestFixedProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	placed := 0
	for range 2000 {
		nodes, req, words := cluster("a:3 b:4 c:1"), job.Request{}, []string{}
		for range 1 + r.IntN(4) {
			words = append(words, fmt.Sprintf("%c/%d", 'a'+rune(r.IntN(3)), r.IntN(4)))
		}
		req.Overbook = r.IntN(4) == 0
		req.Apps, req.FixedPlacements = []job.App{{N: len(words)}}, parseFixedPlacements(t, strings.Join(words, " "))
		req, snap := requestFor(req, nodes)
		p, err := Make(req, snap)
		distinct := slices.Compact(slices.Sorted(slices.Values(words)))
		fits := !slices.ContainsFunc(words, func(w string) bool {
			size := map[byte]byte{'a': '3', 'b': '4', 'c': '1'}[w[0]]
			return w[2] >= size
		})
		if want := fits && (req.Overbook || len(distinct) == len(words)); want != (err == nil) {
			t.Fatalf("%v, overbook %v: %v", words, req.Overbook, err)
		}
		if err != nil {
			continue
		}
		placed++
		if got := strings.ReplaceAll(boundRanks(p), ":", "/"); got != strings.Join(words, " ") {
			t.Fatalf("%v became %s", words, got)
		}
		if p.Overbooked != (len(distinct) < len(words)) {
			t.Fatalf("%v: overbooked %v", words, p.Overbooked)
		}
	}
	if placed < 100 {
		t.Errorf("only %d plans", placed)
	}
}
