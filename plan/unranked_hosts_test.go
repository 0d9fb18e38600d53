package plan

import (
	"testing"

	"remshell/job"
	"remshell/pin"
)

// A note names each host of -hosts that got no rank, where Hydra would give it one.
func TestHostsWithoutRanksAreNamed(t *testing.T) {
	mapped := func(text string) func(*job.Request) {
		return func(r *job.Request) {
			var m pin.Mapping
			if err := m.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			r.Layout.Map = m
		}
	}
	for name, test := range map[string]struct {
		nodes  string
		ranks  int
		change func(*job.Request)
		want   string
	}{
		"all on the first":  {"a:2 b:2", 2, func(*job.Request) {}, "b got no rank; to use all hosts, use -ppn 1 or --map-by node"},
		"two each":          {"a:4 b:4", 4, func(*job.Request) {}, "b got no rank; to use all hosts, use -ppn 2 or --map-by node"},
		"more than b has":   {"a:4 b:1", 4, func(*job.Request) {}, "b got no rank; to use all hosts, use --map-by node"},
		"several":           {"a:2 b:2 c:2", 2, func(*job.Request) {}, "b,c got no rank; to use all hosts, use -ppn 1 or --map-by node"},
		"threads":           {"a:4 b:2", 2, func(r *job.Request) { r.Apps[0].CPUsPerRank = 2 }, "b got no rank; to use all hosts, use -ppn 1 or --map-by node"},
		"one rank":          {"a:2 b:2", 1, func(*job.Request) {}, ""},
		"all have some":     {"a:1 b:2", 2, func(*job.Request) {}, ""},
		"-ppn":              {"a:2 b:2", 2, func(r *job.Request) { r.Apps[0].PerNode = 2 }, ""},
		"slots":             {"a:2 b:2", 2, func(r *job.Request) { r.Nodes[0].Slots = 2 }, ""},
		"-rr":               {"a:2 b:2 c:2", 2, func(r *job.Request) { r.RoundRobin = true }, ""},
		"--map-by slot":     {"a:2 b:2", 2, mapped("slot"), ""},
		"not from a list":   {"a:2 b:2", 2, func(r *job.Request) { r.AllHosts = false }, ""},
		"a further attempt": {"a:2 b:2", 2, func(r *job.Request) { r.Attempt = 1 }, ""},
	} {
		req, snap := requestFor(job.Request{Apps: []job.App{{N: test.ranks}}, AllHosts: true}, cluster(test.nodes))
		test.change(&req)
		for i := range snap.Nodes {
			snap.Nodes[i].NodeDef = req.Nodes[i]
		}
		p, err := Make(req, snap)
		got := ""
		for _, note := range p.Notes {
			if note.Code == "unranked" {
				got = note.Text
			}
		}
		if err != nil || got != test.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, test.want)
		}
	}
}
