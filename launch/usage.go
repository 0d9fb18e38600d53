package launch

import (
	"time"

	"remshell/job"
	"remshell/launch/supervise"
	"remshell/launch/usage"
	"remshell/wire"
)

// addSample adds a node's sample of what its processes use. It returns the event that a limit is
// exceeded, if one is.
func (j *Job) addSample(n *Node, m *wire.SampledUsage, now time.Time) []supervise.Event {
	j.usage.addSamples(m.Ranks)
	j.usageTotals.AddSample(n.Key, m.Host, now)
	most := usage.Limits{Max: j.Request.ResourceLimits, Origins: j.Request.LimitOrigins}
	if excess, exceeded := most.Exceeded(&j.usageTotals, usage.NodeSample{Node: n.Name(), UsageSample: m.Host, Ranks: m.Ranks, RankNumber: j.State.RankNumber}); exceeded {
		return []supervise.Event{supervise.LimitExceeded{Excess: excess}}
	}
	return nil
}

// addSamples keeps the maximum of each sampled value of ranks.
func (a *runRecord) addSamples(ranks []job.RankUsageSample) {
	for _, r := range ranks {
		most := a.maxSamples[r.Rank]
		most.TakeMax(r.UsageSample)
		a.maxSamples[r.Rank] = most
	}
}

// jobUsage combines exact usage, reported at the ends of processes, and samples taken while they
// ran (RM-51). CPU time is that of wait4(2), except on a host that was lost. Memory is the sampled
// maximum, and at least the largest process.
func (a *runRecord) jobUsage(p RankNodes, r job.Result, tally *usage.Totals) job.JobUsage {
	all := job.JobUsage{Ranks: make([]job.UsageTotal, len(p.NodeOfRank)), Nodes: make([]job.UsageTotal, len(p.Nodes))}
	for rank := range all.Ranks {
		seen, sampled := a.maxSamples[rank]
		all.Ranks[rank] = job.UsageTotal{UsageSample: seen, Sampled: sampled}
	}
	for _, e := range r.Exits {
		all.Ranks[e.Rank].SetExact(e.Usage)
	}
	all.Job.Sampled = true
	for i, total := range r.NodeTotals {
		all.Nodes[i] = nodeUsage(tally, i, total)
		all.Job.Sampled = all.Job.Sampled && all.Nodes[i].Sampled
	}
	for rank, node := range p.NodeOfRank {
		u, host := all.Ranks[rank], &r.NodeTotals[node]
		if host.PeakRank < 0 && u.Mem > 0 || host.PeakRank >= 0 && u.Mem > all.Ranks[host.PeakRank].Mem {
			host.PeakRank = rank
		}
		if !all.Nodes[node].Sampled { // then it is the sum of the largest process of each rank
			all.Nodes[node].Add(job.UsageSample{Mem: u.Mem})
		}
	}
	a.sumJob(&all, r, tally)
	return all
}

// nodeUsage returns the usage of a node. If the node was lost, not all ends of ranks are known, and
// samples may be higher.
func nodeUsage(tally *usage.Totals, i int, total job.NodeTotal) job.UsageTotal {
	var u job.UsageTotal
	u.UsageSample, u.Sampled = tally.NodeMaximum(i)
	seen := u.UsageSample
	u.SetExact(total.Usage)
	if total.EndedRanks < total.Ranks {
		u.CPU = max(u.CPU, seen.CPU)
	}
	if !u.Sampled {
		u.Mem = 0
	}
	return u
}

// sumJob sets the usage of the whole job.
func (a *runRecord) sumJob(all *job.JobUsage, r job.Result, tally *usage.Totals) {
	most, _ := tally.JobMaximum()
	all.Job.UsageSample = job.UsageSample{Mem: most.Mem, VMem: most.VMem}
	var sum job.UsageSample
	for _, u := range all.Nodes {
		all.Job.Mem, all.Job.VMem = max(all.Job.Mem, u.Mem), max(all.Job.VMem, u.VMem)
		sum.Add(u.UsageSample)
	}
	if all.Job.CPU = sum.CPU; !all.Job.Sampled {
		all.Job.Mem = max(all.Job.Mem, sum.Mem)
	}
	all.Job.Wall = a.wallTime(r.Exits, len(all.Ranks))
}

// wallTime returns the time from the first start to the last end of ranks.
func (a *runRecord) wallTime(exits []*job.Exit, ranks int) time.Duration {
	began := make([]time.Duration, ranks)
	for _, s := range a.rankStarts {
		began[s.rank] = s.after
	}
	var first, last time.Duration
	for i, e := range exits {
		start := began[e.Rank]
		if i == 0 || start < first {
			first = start
		}
		last = max(last, start+e.Usage.Wall)
	}
	return max(0, last-first)
}
