package usage

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// twoNodes has four ranks: 0 and 1 on the first node, 2 and 3 on the second.
var twoNodes = []int{0, 0, 1, 1}

// The tables have the exact usage of each node, and the sampled maxima where there are samples.
func TestUsageByNode(t *testing.T) {
	use := func(user, rss int) job.Usage {
		return job.Usage{Wall: time.Second, User: time.Duration(user) * time.Second, MaxRSS: int64(rss) << 20}
	}
	measured := func() job.Result {
		return job.Result{Exits: []*job.Exit{{Rank: 0, Usage: use(1, 7)}, {Rank: 1, Usage: use(7, 64)}, {Rank: 2, Usage: use(3, 9)}},
			NodeTotals: []job.NodeTotal{{Node: "a", Ranks: 2, EndedRanks: 2, PeakRank: 1, Usage: use(108, 64)}, {Node: "b", Ranks: 2, EndedRanks: 1, PeakRank: 2, Usage: use(3, 9)}}}
	}
	table := func(a, b, all string) string {
		return "  usage  ranks  wall    user      system  peak memory\n" +
			"  a      2      1.00 s  108.00 s  0.00 s  " + a + " (rank 1)\n" +
			"  b      2      1.00 s  3.00 s    0.00 s  " + b + " (rank 2)\n" +
			"  all    4      1.00 s  111.00 s  0.00 s  " + all + "\n"
	}
	u := jobUsage{maxSamples: make(map[int]job.UsageSample)}
	r := measured()
	u.setUsage(&r, twoNodes, &u.totals)
	if got, want := tables(r, ""), table(">= 64.0 MiB", ">= 9.0 MiB", ">= 64.0 MiB"); got != want {
		t.Errorf("not sampled: got\n%swant\n%s", got, want)
	}
	if all := r.Usage.Job; all.Mem != (7+64+9)<<20 || all.CPU != 111*time.Second || all.Wall != time.Second || all.Sampled {
		t.Errorf("%+v", all)
	}
	at := time.Unix(1e9, 0)
	u.totals.AddSample(0, job.UsageSample{CPU: time.Hour, Mem: 100 << 20, VMem: 1 << 30}, at)
	u.totals.AddSample(1, job.UsageSample{Mem: 5 << 20, VMem: 2 << 30}, at)
	u.addRanks([]job.RankUsageSample{{Rank: 1, UsageSample: job.UsageSample{Mem: 90 << 20, VMem: 7}}})
	r = measured()
	u.setUsage(&r, twoNodes, &u.totals)
	if got, want := tables(r, ""), table("100.0 MiB", "9.0 MiB", "105.0 MiB"); got != want {
		t.Errorf("sampled: got\n%swant\n%s", got, want)
	}
	want := "  rank  host  cput    mem         vmem     wall    exit\n"
	if got := tables(r, "rank"); !strings.Contains(got, want) || !strings.Contains(got, "  1           7.00 s  90.0 MiB    0.0 MiB  1.00 s  0\n") || !strings.HasSuffix(got, "-\n") {
		t.Errorf("ranks: got\n%s", got)
	}
	if got := formatUsage("lines", job.Request{}, r, nil); got != "resources_used.cput = 00:01:51\nresources_used.mem = 107520kb\nresources_used.vmem = 3145728kb\nresources_used.walltime = 00:00:01\n" {
		t.Errorf("lines: got\n%s", got)
	}
}

// The usage of a lost node is that of its samples.
func TestUsageOfALostNode(t *testing.T) {
	u := jobUsage{maxSamples: make(map[int]job.UsageSample)}
	u.totals.AddSample(1, job.UsageSample{CPU: 9 * time.Second, Mem: 3}, time.Unix(1e9, 0))
	u.addRanks([]job.RankUsageSample{{Rank: 3, UsageSample: job.UsageSample{CPU: 8 * time.Second}}})
	r := job.Result{Exits: []*job.Exit{{Rank: 0, Usage: job.Usage{User: time.Second}}},
		NodeTotals: []job.NodeTotal{{Ranks: 2, EndedRanks: 1, PeakRank: -1, Usage: job.Usage{User: time.Second}}, {Ranks: 2, PeakRank: -1}}}
	if u.setUsage(&r, twoNodes, &u.totals); r.Usage.Nodes[1].CPU != 9*time.Second || r.Usage.Job.CPU != 10*time.Second || r.Usage.Ranks[3].CPU != 8*time.Second {
		t.Errorf("%+v", r.Usage)
	}
}

// tables returns the tables of --usage, without the lines after them.
func tables(r job.Result, usage string) string {
	all, _, _ := strings.Cut(formatUsage(usage, job.Request{}, r, []int{0}), "resources_used")
	return all
}
