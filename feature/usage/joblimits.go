package usage

import (
	"remshell/job"
	"remshell/limits"
)

// Limits are the limits on a job's resources (--limit). For each limit, they contain the place where the limit was set.
type Limits struct {
	Max     limits.Map
	Origins limits.Origins
}

// A NodeSample is a sample of a node's processes, with the names of the node and the ranks for messages.
type NodeSample struct {
	Node string
	job.UsageSample
	Ranks      []job.RankUsageSample
	RankNumber func(rank int) string // the number of a rank as text
}

// Exceeded returns a limit that the job, the node that has sent s, or a rank on that node has exceeded (rule RM-56).
// It returns false if no limit is exceeded.
func (l Limits) Exceeded(totals *Totals, s NodeSample) (excess limits.Excess, exceeded bool) {
	if len(l.Max) == 0 {
		return limits.Excess{}, false
	}
	all, host := totals.maximum, " on host "+s.Node
	for _, check := range []struct {
		what  limits.Resource
		used  int64
		where string
	}{
		{limits.CPUTime, int64(all.CPU), ""}, {limits.Mem, all.Mem, ""}, {limits.VMem, all.VMem, ""},
		{limits.HostMem, s.Mem, host}, {limits.HostVMem, s.VMem, host},
	} {
		if most, limited := l.Max[check.what]; limited && check.used > most {
			return limits.Excess{Name: check.what, Used: check.used, Allowed: most, Where: check.where, From: l.Origins[check.what]}, true
		}
	}
	most, limited := l.Max[limits.RankMem]
	for _, r := range s.Ranks {
		if limited && r.Mem > most {
			return limits.Excess{Name: limits.RankMem, Used: r.Mem, Allowed: most, Where: " by rank " + s.RankNumber(r.Rank) + host, From: l.Origins[limits.RankMem]}, true
		}
	}
	return limits.Excess{}, false
}

// OwnLimitExceeded describes how a job has exceeded a limit that a node's administrator has set. rank is
// empty if no single rank has exceeded the limit.
func OwnLimitExceeded(node, rank string, resource limits.Resource, used, allowed int64) limits.Excess {
	where := " on host " + node
	switch {
	case rank != "":
		where = " by rank " + rank + where
	case resource == limits.RankMem:
		where = " by processes that are not part of a rank" + where
	}
	return limits.Excess{Name: resource, Used: used, Allowed: allowed, Where: where, From: "limits.toml of " + node}
}
