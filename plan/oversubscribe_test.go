package plan

import (
	"testing"

	"remshell/idset"
	"remshell/job"
)

// With --oversubscribe ranks take free CPUs first, then CPUs of jobs that share too, and never
// those of a job that does not. They need no idle node and keep nobody away.
func TestOversubscribe(t *testing.T) {
	for name, test := range map[string]struct {
		nodes  string
		alone  []int // CPUs of the first node that a job holds which does not share
		shared []int // and those of a job that does
		ranks  int
		want   string
	}{
		"free CPUs are enough":      {"a:3", []int{0}, []int{1}, 1, "a2"},
		"free CPUs first":           {"a:3", nil, []int{0}, 3, "a1 a2 a0"},
		"only those of sharing":     {"a:3", []int{0}, []int{1, 2}, 2, "a1 a2"},
		"never the others":          {"a:2", []int{0}, []int{1}, 3, "a1 a1 a1"},
		"no free CPU":               {"a:2", nil, []int{0, 1}, 3, "a0 a1 a0"},
		"nothing is shared":         {"a:2", []int{0, 1}, nil, 1, "no node of the list can be used now"},
		"nothing is shared on one":  {"a:2 b:2", []int{0, 1}, nil, 3, "b0 b1 b0"},
		"more ranks than CPUs":      {"a:2", nil, nil, 3, "a0 a1 a0"},
		"another node's free CPUs":  {"a:2 b:2", nil, []int{0, 1}, 2, "b0 b1"},
		"evenly over all the nodes": {"a:2 b:2", nil, []int{0, 1}, 4, "a0 a1 b0 b1"},
	} {
		req, snap := on(job.Request{Apps: []job.App{{N: test.ranks}}, Placing: job.Placing{Oversubscribe: true}}, cluster(test.nodes))
		held0 := idset.Of(append(append([]int(nil), test.alone...), test.shared...)...)
		snap.Nodes[0].Use = job.Use{Procs: len(held0), Seated: len(held0), Busy: held0, Shared: test.shared}
		p, err := Make(req, snap)
		got := held(p)
		if err != nil {
			got = err.Error()
		}
		if got != test.want || p.Exclusive {
			t.Errorf("%s: got %q, exclusive %v, want %q", name, got, p.Exclusive, test.want)
		}
	}
}
