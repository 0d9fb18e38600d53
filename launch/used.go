package launch

import (
	"time"

	"remshell/job"
	"remshell/launch/supervise"
)

// sampled notes what ranks have, if it is more than before.
func (a *account) sampled(ranks []job.RankSample) {
	for _, r := range ranks {
		most := a.samples[r.Rank]
		most.Rise(r.Sample)
		a.samples[r.Rank] = most
	}
}

// used brings together what was told exactly, at the ends of processes, and what was seen while
// they ran (RM-51): time is what wait4(2) has told, but of a host that was lost; memory is what was
// seen, and at least the largest process.
func (a *account) used(p whereabouts, r job.Result, tally *supervise.Tally) job.Accounts {
	all := job.Accounts{Ranks: make([]job.Used, len(p.of)), Nodes: make([]job.Used, len(p.nodes))}
	for rank := range all.Ranks {
		seen, sampled := a.samples[rank]
		all.Ranks[rank] = job.Used{Sample: seen, Sampled: sampled}
	}
	for _, e := range r.Exits {
		all.Ranks[e.Rank].Exact(e.Usage)
	}
	all.All.Sampled = true
	for i, total := range r.Hosts {
		all.Nodes[i] = ofNode(tally, i, total)
		all.All.Sampled = all.All.Sampled && all.Nodes[i].Sampled
	}
	for rank, node := range p.of {
		u, host := all.Ranks[rank], &r.Hosts[node]
		if host.Peak < 0 && u.Mem > 0 || host.Peak >= 0 && u.Mem > all.Ranks[host.Peak].Mem {
			host.Peak = rank
		}
		if !all.Nodes[node].Sampled { // then it is the sum of the largest process of each rank
			all.Nodes[node].Add(job.Sample{Mem: u.Mem})
		}
	}
	a.inAll(&all, r, tally)
	return all
}

// ofNode is what a node has used. The ends of ranks of one that was lost are not known: then what
// was seen is more.
func ofNode(tally *supervise.Tally, i int, total job.Total) job.Used {
	var u job.Used
	u.Sample, u.Sampled = tally.Node(i)
	seen := u.Sample
	u.Exact(total.Usage)
	if total.Ended < total.Ranks {
		u.CPU = max(u.CPU, seen.CPU)
	}
	if !u.Sampled {
		u.Mem = 0
	}
	return u
}

// inAll sums up what the job has used.
func (a *account) inAll(all *job.Accounts, r job.Result, tally *supervise.Tally) {
	most, _ := tally.All()
	all.All.Sample = job.Sample{Mem: most.Mem, VMem: most.VMem}
	var sum job.Sample
	for _, u := range all.Nodes {
		all.All.Mem, all.All.VMem = max(all.All.Mem, u.Mem), max(all.All.VMem, u.VMem)
		sum.Add(u.Sample)
	}
	if all.All.CPU = sum.CPU; !all.All.Sampled {
		all.All.Mem = max(all.All.Mem, sum.Mem)
	}
	all.All.Wall = a.wall(r.Exits, len(all.Ranks))
}

// wall is the time from the first start of one of so many ranks to the last end.
func (a *account) wall(exits []*job.Exit, ranks int) time.Duration {
	began := make([]time.Duration, ranks)
	for _, s := range a.starts {
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
