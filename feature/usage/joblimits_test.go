package usage

import (
	"fmt"
	"testing"
	"time"

	"remshell/job"
	"remshell/limits"
)

// A node reports a sample, some time after the start.
type sampled struct {
	after time.Duration
	node  int
	job.UsageSample
	ranks []job.RankUsageSample
}

// exceeded adds samples, and returns the limit that the job exceeds after the last one.
func exceeded(most limits.Map, samples ...sampled) (limits.Excess, bool) {
	var totals Totals
	var excess limits.Excess
	over := false
	l := Limits{Max: most, Origins: limits.Origins{}}
	for what := range most {
		l.Origins[what] = "--limit"
	}
	for _, s := range samples {
		totals.AddSample(s.node, s.UsageSample, time.Unix(1_000_000, 0).Add(s.after))
		excess, over = l.Exceeded(&totals, NodeSample{Node: string(rune('a' + s.node)), UsageSample: s.UsageSample, Ranks: s.ranks,
			RankNumber: func(rank int) string { return fmt.Sprint(rank) }})
	}
	return excess, over
}

// Usage above a limit is reported with the text of RM-56. Usage equal to the limit is not.
func TestLimits(t *testing.T) {
	const mb = 1 << 20
	at := func(node int, s job.UsageSample, ranks ...job.RankUsageSample) sampled {
		return sampled{0, node, s, ranks}
	}
	rank := func(n int, mem int64) job.RankUsageSample {
		return job.RankUsageSample{Rank: n, UsageSample: job.UsageSample{Mem: mem}}
	}
	for _, test := range []struct {
		name    string
		bounds  limits.Map
		samples []sampled
		want    string // empty: no limit is exceeded
	}{
		{"as much", limits.Map{limits.Mem: 100}, []sampled{at(0, job.UsageSample{Mem: 60}), at(1, job.UsageSample{Mem: 40})}, ""},
		{"more, together", limits.Map{limits.Mem: 99}, []sampled{at(0, job.UsageSample{Mem: 60}), at(1, job.UsageSample{Mem: 40})}, "mem 100 exceeded limit 99"},
		{"not at one moment", limits.Map{limits.Mem: 340}, []sampled{at(0, job.UsageSample{Mem: 100}), at(1, job.UsageSample{Mem: 200}),
			{time.Second, 0, job.UsageSample{Mem: 300}, nil}, {time.Second, 1, job.UsageSample{Mem: 40}, nil}}, ""},
		{"vmem", limits.Map{limits.VMem: 30 * mb, limits.Mem: 300}, []sampled{at(0, job.UsageSample{Mem: 1, VMem: 47570944})}, "vmem 47570944 exceeded limit 31457280"},
		{"time", limits.Map{limits.CPUTime: int64(time.Second)}, []sampled{at(0, job.UsageSample{CPU: time.Second + 1})}, "cput 2 exceeded limit 1"},
		{"a host", limits.Map{limits.HostMem: 100}, []sampled{at(0, job.UsageSample{Mem: 100}), at(1, job.UsageSample{Mem: 101})}, "mem 101 exceeded limit 100 on host b"},
		{"a host's address space", limits.Map{limits.HostVMem: 100}, []sampled{at(1, job.UsageSample{VMem: 101})}, "vmem 101 exceeded limit 100 on host b"},
		{"a rank", limits.Map{limits.RankMem: 100}, []sampled{at(1, job.UsageSample{Mem: 201}, rank(2, 100), rank(3, 101))}, "pmem 101 exceeded limit 100 by rank 3 on host b"},
		{"no limit", nil, []sampled{at(0, job.UsageSample{CPU: 1 << 60, Mem: 1 << 60, VMem: 1 << 60})}, ""},
	} {
		excess, over := exceeded(test.bounds, test.samples...)
		got := ""
		if over {
			got = excess.BatchLine()
		}
		if got != test.want || over && excess.From != "--limit" {
			t.Errorf("%s: %q by %q, want %q", test.name, got, excess.From, test.want)
		}
	}
}

// Every sampled limit is enforced.
func TestEverySampledLimitCounts(t *testing.T) {
	most := job.UsageSample{CPU: 1 << 60, Mem: 1 << 60, VMem: 1 << 60}
	for _, what := range limits.All() {
		if !what.IsSampled() {
			continue
		}
		if _, over := exceeded(limits.Map{what: 1}, sampled{0, 0, most, []job.RankUsageSample{{Rank: 0, UsageSample: most}}}); !over {
			t.Errorf("%s is exceeded, and the job goes on", what)
		}
	}
}

// If a node's own limit is exceeded, the report names its origin.
func TestLimitsOfTheNodeAreTold(t *testing.T) {
	for want, excess := range map[string]limits.Excess{
		"mem: 101 bytes used on host b, 100 bytes allowed by limits.toml of b":                                           OwnLimitExceeded("b", "", limits.HostMem, 101, 100),
		"pmem: 101 bytes used by rank 3 on host b, 100 bytes allowed by limits.toml of b":                                OwnLimitExceeded("b", "3", limits.RankMem, 101, 100),
		"pmem: 101 bytes used by processes that are not part of a rank on host b, 100 bytes allowed by limits.toml of b": OwnLimitExceeded("b", "", limits.RankMem, 101, 100),
	} {
		if got := excess.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
