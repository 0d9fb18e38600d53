package usage

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/supervise"
)

func init() { launch.Register(launch.Feature{Name: "usage and limits", Attach: attach}) }

// A jobUsage holds the usage that the nodes have reported during one attempt (one run of all ranks).
type jobUsage struct {
	job        *launch.Job
	limits     Limits
	totals     Totals
	maxSamples map[int]job.UsageSample // by rank, the most of each sampled value
	began      time.Time               // when the ranks were released
	ended      bool                    // no rank runs any more
}

func attach(j *launch.Job) {
	u := &jobUsage{job: j, limits: Limits{Max: j.Request.ResourceLimits, Origins: j.Request.LimitOrigins}, maxSamples: make(map[int]job.UsageSample), began: time.Now()}
	launch.Handle(j, func(n *launch.Node, m *SampledUsage) []supervise.Event { return u.addSample(n, m, time.Now()) })
	launch.Handle(j, func(n *launch.Node, m *LimitExceeded) []supervise.Event {
		rank := ""
		if m.Rank >= 0 {
			rank = j.State.RankNumber(m.Rank)
		}
		return []supervise.Event{supervise.LimitExceeded{Excess: OwnLimitExceeded(n.Name(), rank, m.Limit.Resource, m.Used, m.Limit.Max)}}
	})
	done := func(n *launch.Node) { u.totals.NodeDone(n.Key) }
	j.Hooks.NodeDrained.Add(done)
	j.Hooks.NodeLost.Add(done)
	j.Hooks.Ended.Add(func() { u.ended = true })
	j.Hooks.Result.Add(u.addToResult)
	if s, has := launch.SettingOf[*Sampling](j); has && s.Report != "" {
		j.Hooks.Details.Add(func(r job.Result) {
			fmt.Fprint(j.Env.Err, formatUsage(s.Report, j.Request, r, j.GroupFirsts))
		})
	}
}

// addSample adds a usage sample of a node. If a limit is exceeded, it returns an event that ends the job.
func (u *jobUsage) addSample(n *launch.Node, m *SampledUsage, now time.Time) []supervise.Event {
	u.addRanks(m.Ranks)
	u.totals.AddSample(n.Key, m.Host, now)
	if excess, exceeded := u.limits.Exceeded(&u.totals, NodeSample{Node: n.Name(), UsageSample: m.Host, Ranks: m.Ranks, RankNumber: u.job.State.RankNumber}); exceeded {
		return []supervise.Event{supervise.LimitExceeded{Excess: excess}}
	}
	return nil
}

// addRanks adds the samples of ranks. It keeps the maximum of each sampled value of a rank.
func (u *jobUsage) addRanks(ranks []job.RankUsageSample) {
	for _, r := range ranks {
		most := u.maxSamples[r.Rank]
		most.TakeMax(r.UsageSample)
		u.maxSamples[r.Rank] = most
	}
}

// addToResult adds the usage of ranks, nodes and the job to the result. While ranks run, it ignores the latest
// samples until all nodes have sent theirs for the same second. The wall time of a node or job that has running ranks
// is the time since the start.
func (u *jobUsage) addToResult(r *job.Result) {
	nodeOfRank := u.job.State.Nodes()
	if u.ended {
		u.setUsage(r, nodeOfRank, &u.totals)
		return
	}
	complete := u.totals.CompleteSeconds()
	u.setUsage(r, nodeOfRank, &complete)
	ran := time.Since(u.began)
	for i, h := range r.NodeTotals {
		if h.EndedRanks < h.Ranks {
			r.Usage.Nodes[i].Wall = ran
		}
	}
	if u.job.State.RanksLeft > 0 {
		r.Usage.Job.Wall = ran
	}
}

// setUsage sets the usage in the result. It combines exact usage, reported when processes end, and samples taken while
// they ran (rule RM-51). CPU time comes from wait4(2), except on a host that was lost. Memory is the larger of the
// sampled maximum and the memory of the largest process.
func (u *jobUsage) setUsage(r *job.Result, nodeOfRank []int, totals *Totals) {
	all := job.JobUsage{Ranks: make([]job.UsageTotal, len(nodeOfRank)), Nodes: make([]job.UsageTotal, len(r.NodeTotals))}
	for rank := range all.Ranks {
		seen, sampled := u.maxSamples[rank]
		all.Ranks[rank] = job.UsageTotal{UsageSample: seen, Sampled: sampled}
	}
	for _, e := range r.Exits {
		all.Ranks[e.Rank].SetExact(e.Usage)
	}
	all.Job.Sampled = true
	for i, total := range r.NodeTotals {
		all.Nodes[i] = nodeTotal(totals, i, total)
		all.Job.Sampled = all.Job.Sampled && all.Nodes[i].Sampled
	}
	for rank, node := range nodeOfRank {
		u, host := all.Ranks[rank], &r.NodeTotals[node]
		if host.PeakRank < 0 && u.Mem > 0 || host.PeakRank >= 0 && u.Mem > all.Ranks[host.PeakRank].Mem {
			host.PeakRank = rank
		}
		if !all.Nodes[node].Sampled { // then it is the sum of the largest process of each rank
			all.Nodes[node].Add(job.UsageSample{Mem: u.Mem})
		}
	}
	sumJob(&all, *r, totals)
	r.Usage = all
}

// nodeTotal returns the usage of node i. total contains the usage of the ranks that have ended. If some ranks have
// not ended, or the node was lost before they ended, nodeTotal uses the CPU time of the samples if that is larger.
func nodeTotal(totals *Totals, i int, total job.NodeTotal) job.UsageTotal {
	var u job.UsageTotal
	u.UsageSample, u.Sampled = totals.NodeMaximum(i)
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

// sumJob sets all.Job, the usage of the whole job, from the usage of the nodes and the totals of samples.
func sumJob(all *job.JobUsage, r job.Result, totals *Totals) {
	most, _ := totals.JobMaximum()
	all.Job.UsageSample = job.UsageSample{Mem: most.Mem, VMem: most.VMem}
	var sum job.UsageSample
	for _, u := range all.Nodes {
		all.Job.Mem, all.Job.VMem = max(all.Job.Mem, u.Mem), max(all.Job.VMem, u.VMem)
		sum.Add(u.UsageSample)
	}
	if all.Job.CPU = sum.CPU; !all.Job.Sampled {
		all.Job.Mem = max(all.Job.Mem, sum.Mem)
	}
	all.Job.Wall = wallTime(r, len(all.Ranks))
}

// wallTime returns the time from the first start of a rank to the last end of a rank. ranks is the number of ranks of
// the job, including those that have not ended.
func wallTime(r job.Result, ranks int) time.Duration {
	began := make([]time.Duration, ranks)
	if r.Starts != nil {
		for s := range r.Starts {
			began[s.Rank] = s.SinceStart
		}
	}
	var first, last time.Duration
	for i, e := range r.Exits {
		start := began[e.Rank]
		if i == 0 || start < first {
			first = start
		}
		last = max(last, start+e.Usage.Wall)
	}
	return max(0, last-first)
}
