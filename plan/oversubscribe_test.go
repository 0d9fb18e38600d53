package plan

import (
	"errors"
	"testing"

	"remshell/idset"
	"remshell/job"
)

// Without -n each host that the user named gets ranks, or the job is refused. A busy one was left
// out without a word.
func TestNamedHostsAllRun(t *testing.T) {
	refusal := "without -n each named host gets ranks, and b can take none now"
	for name, test := range map[string]struct {
		app    job.App
		change func(*job.Request)
		want   string
	}{
		"no -n":           {job.App{}, func(*job.Request) {}, refusal},
		"-ppn 1":          {job.App{Share: job.Share{PerNode: 1}}, func(*job.Request) {}, refusal},
		"-n 2":            {job.App{N: 2}, func(*job.Request) {}, "a0 a1"},
		"candidates":      {job.App{}, func(r *job.Request) { r.AllHosts = false }, "a0 a1"},
		"skip":            {job.App{}, func(r *job.Request) { r.Skip = true }, "a0 a1"},
		"waits":           {job.App{}, func(r *job.Request) { r.Wait = true }, refusal},
		"--oversubscribe": {job.App{Share: job.Share{PerNode: 1}}, func(r *job.Request) { r.Oversubscribe = true }, "a0 b0"},
	} {
		req, snap := on(job.Request{Apps: []job.App{test.app}, AllHosts: true}, cluster("a:2 b:2"))
		test.change(&req)
		snap.Nodes[1].Use = job.Use{Procs: 2, Seated: 2, Busy: []int{0, 1}, Shared: []int{0, 1}}
		p, err := Make(req, snap)
		got := held(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = failed.Text
			if failed.Permanent {
				t.Errorf("%s: refused for ever: %v", name, err)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

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
		"nothing is shared":         {"a:2", []int{0, 1}, nil, 1, "no host can take this job now"},
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
