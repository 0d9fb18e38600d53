package plan

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/plan/nodeset"
)

// The error if no node set can run the job says what the set lacks, also if it is not capacity.
func TestSetShortage(t *testing.T) {
	app := func(n, threads, shape int) job.App {
		return job.App{N: n, RankNeeds: job.RankNeeds{CPUsPerRank: threads, ExactPerNode: shape}}
	}
	const delayed = "PRIORITY BESTFIT PLUS DELAY DELAY 1m"
	for _, test := range []struct {
		name, cluster, features, busy, set string
		contiguous                         job.Contiguity
		apps                               []job.App
		want                               string
	}{
		{"too small", "a:2 b:2 c:4", "z z -", "", "ONEOF:FEATURE:z", "", []job.App{app(5, 1, 0)},
			"no ONEOF:FEATURE set can ever have room for 5 ranks (largest: z, at most 4 ranks when idle on a,b)"},
		{"scattered", "a:2 b:2 c:2", "z - z", "", "ONEOF:FEATURE:z", "first", []job.App{app(3, 1, 0)},
			"no ONEOF:FEATURE set can ever have room for 3 ranks (largest: z: there are no contiguous nodes for 3 ranks: contiguous nodes have room for at most 2 ranks (a), and all nodes together for 4)"},
		{"scattered now", "a:2 b:2 c:2", "z z z", "b:2", "ONEOF:FEATURE:z", "first", []job.App{app(3, 1, 0)},
			"there are no contiguous nodes for 3 ranks: contiguous nodes have room for at most 2 ranks (a), and all nodes together for 4"},
		{"no room for the shape", "a:3 b:3 c:4", "z z -", "", "ONEOF:FEATURE:z", "", []job.App{app(4, 1, 4)},
			"no ONEOF:FEATURE set can ever have room for 4 ranks (largest: z: 4 ranks cannot be placed with exactly 4 on each host: 2 nodes (a,b) have room for 0, and 4 are left over)"},
		{"several apps", "a:3 b:3 c:4 d:4", "z z - -", "", "ONEOF:FEATURE:z", "", []job.App{app(2, 2, 0), app(4, 1, 0)},
			"no ONEOF:FEATURE set can ever have room for 6 ranks (largest: z: 4 ranks do not fit: there are free slots for only 2 ranks on 2 nodes (a,b))"},
		{"the union", "a:2 b:2 c:2", "x - y", "", "ANYOF:FEATURE:x,y", "first", []job.App{app(3, 1, 0)},
			"no ANYOF:FEATURE set can ever have room for 3 ranks (x+y: there are no contiguous nodes for 3 ranks: contiguous nodes have room for at most 2 ranks (a), and all nodes together for 4)"},
		{"the best when idle", "a:4 b:2", "x y", "b:1", "ONEOF:FEATURE:x,y " + delayed, "", []job.App{app(2, 1, 0)},
			"the best ONEOF:FEATURE set has no room for 2 ranks now (y, 1 rank on b); the job waits for it at most 1m0s longer"},
		{"the best when idle, of which none is free", "a:4 b:2", "x y", "b:2", "ONEOF:FEATURE:x,y " + delayed, "", []job.App{app(2, 1, 0)},
			"the best ONEOF:FEATURE set has no room for 2 ranks now (y; none of its nodes is free); the job waits for it at most 1m0s longer"},
	} {
		request, rest, _ := strings.Cut(test.set, " ")
		level := nodeset.Level{Spec: &request, Source: "--node-set", Modifiers: make(map[string]string)}
		for words := strings.Fields(rest); len(words) > 1; words = words[2:] {
			level.Modifiers[strings.ToLower(words[0])] = words[1]
		}
		kinds, _ := nodeset.KindsOf(0, nil)
		set, err := nodeset.Levels{Flags: level, MaxDelay: time.Hour}.Resolve(kinds)
		if err != nil {
			t.Fatal(err)
		}
		snap := withBusyNodes(cluster(test.cluster), test.busy)
		for i, feature := range strings.Fields(test.features) {
			snap.Nodes[i].Features = []string{feature}
		}
		req := contiguousRequest(test.contiguous, test.apps...)
		req.NodeSet = set
		if _, err := Make(requestFor(req, snap)); err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
	}
}
