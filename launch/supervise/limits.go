package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/limit"
	"remshell/text"
)

// wallCounts reports whether the limit of the wall time comes before -timeout.
func (r Rules) wallCounts() bool {
	wall := r.Limits.Time(limit.WallTime)
	return wall > 0 && (r.Timeout == 0 || wall < r.Timeout)
}

// left is how long a job may run so that it ends by a margin before its batch system ends it: a second at
// least; 0: nobody has asked for that.
func (s *State) left(now time.Time) time.Duration {
	if s.rules.Margin == 0 || s.rules.RM.End.IsZero() {
		return 0
	}
	return max(time.Second, s.rules.RM.End.Add(-s.rules.Margin).Sub(now))
}

// End is when the job has to end, by -timeout, a limit or its batch system, whichever comes first; zero: nobody knows.
func (s *State) End() time.Time {
	ends := s.due.run
	if end := s.rules.RM.End; !end.IsZero() && (ends.IsZero() || end.Before(ends)) {
		ends = end
	}
	return ends
}

// warnAt is when the ranks are to be warned of that end; zero: never (RM-58).
func (s *State) warnAt() time.Time {
	ends := s.End()
	if s.rules.Warn.Signal == 0 || ends.IsZero() {
		return time.Time{}
	}
	return ends.Add(-s.rules.Warn.Before)
}

// soon is when ranks are looked for again that have not begun when they were to be warned.
const soon = 100 * time.Millisecond

// warn tells the ranks that the end is near, once there are all that are to be told.
func (s *State) warn(now time.Time) []Action {
	if s.unstarted > 0 {
		s.due.warn = now.Add(soon)
		return nil
	}
	s.due.warn = time.Time{}
	number := job.Signal(s.rules.Warn.Signal)
	words := fmt.Sprintf("%v before the end: sent %s to %s on %s", s.rules.Warn.Before, number, text.Count(s.Left, "rank"), text.Count(s.Undone, "node"))
	return []Action{SignalAll{number}, Say{words}}
}

// within sees that the job, the node that has told, and each rank of it use no more than they may,
// and ends the job if one does (RM-56).
func (s *State) within(e Sampled, now time.Time) []Action {
	if len(s.rules.Limits) == 0 {
		return nil
	}
	if excess, is := s.excess(e); is {
		return s.over(excess, now)
	}
	return nil
}

// over ends a job that has used more than it may.
func (s *State) over(excess limit.Excess, now time.Time) []Action {
	if s.Phase > Interrupted {
		return nil
	}
	return append(s.cry(excess, now), s.end(now, Ending, s.rules.Grace)...)
}

// cry tells what was exceeded, and makes it the cause, if there was none before.
func (s *State) cry(excess limit.Excess, now time.Time) []Action {
	s.blame(s.judge(Failed{Kind: OverLimit, Text: excess.String()}, now), now)
	return []Action{Cry{"=>> mpiexec: job killed: " + excess.Line()}}
}

// excessOn says what has exceeded a limit of a node's own.
func (s *State) excessOn(e Exceeded) limit.Excess {
	name := s.nodes[e.Node].name
	where := " on host " + name
	switch {
	case e.Rank >= 0:
		where = " by rank " + s.Number(e.Rank) + where
	case e.What == limit.RankMem:
		where = " by processes of no rank" + where
	}
	return limit.Excess{Name: e.What, Used: e.Used, Allowed: e.Most, Where: where, From: "limits.toml of " + name}
}

// excess finds a limit that is exceeded, if there is one.
func (s *State) excess(e Sampled) (found limit.Excess, is bool) {
	all, host := s.Tally.most, " on host "+s.nodes[e.Node].name
	for _, check := range []struct {
		what  limit.Resource
		used  int64
		where string
	}{
		{limit.CPUTime, int64(all.CPU), ""}, {limit.Mem, all.Mem, ""}, {limit.VMem, all.VMem, ""},
		{limit.HostMem, e.Mem, host}, {limit.HostVMem, e.VMem, host},
	} {
		most, limited := s.rules.Limits[check.what]
		if limited && check.used > most {
			return limit.Excess{Name: check.what, Used: check.used, Allowed: most, Where: check.where, From: s.rules.Origins[check.what]}, true
		}
	}
	most, limited := s.rules.Limits[limit.RankMem]
	for _, r := range e.Ranks {
		if limited && r.Mem > most {
			return limit.Excess{Name: limit.RankMem, Used: r.Mem, Allowed: most, Where: fmt.Sprintf(" by rank %s%s", s.Number(r.Rank), host),
				From: s.rules.Origins[limit.RankMem]}, true
		}
	}
	return limit.Excess{}, false
}
