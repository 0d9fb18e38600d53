package gang

import (
	"slices"
	"time"

	"remshell/idset"
	"remshell/job"
	"remshell/job/turns"
)

// These are the delays and intervals of a schedule.
const (
	continueDelay = 20 * time.Millisecond // ranks continue this long after the ranks of others were stopped
	settleTime    = time.Second           // so long after its claim a new gang is known to the others
	clockCheck    = time.Second           // the wall clock may have been set
)

// A schedule contains the data from which a helper decides when the ranks on its node run, if the job takes turns
// with other jobs.
type schedule struct {
	gang     job.Gang
	setting  job.SliceSetting // may replace gang.Slice
	claimed  time.Time        // when its claim was published
	looked   bool             // the claims of other jobs were read
	isNew    bool             // it has competitors that may not know it yet
	settled  int64            // the slice in which it became known, if isNew; 0: it has not
	here     []int            // parties of its competitors on this node
	anywhere []int            // parties of its competitors on any node, as mpiexec has sent them
	over     bool             // the job is ending
}

// competitors returns the numbers (parties) of all jobs that share a CPU with this job and take turns with
// it.
func (s *schedule) competitors() []int {
	return slices.DeleteFunc(idset.New(append(slices.Clone(s.here), s.anywhere...)...), func(p int) bool { return p == s.gang.Party })
}

// noteClaims records the numbers (parties) of the jobs with which this job takes turns on this node. If there are any
// at the first call, this job is new: its ranks wait until the other jobs know of it.
func (s *schedule) noteClaims(parties []int) {
	if !s.looked {
		s.looked, s.isNew = true, len(parties) > 0
	}
	s.here = parties
}

// decide returns whether to stop the ranks now, and when to decide again. isHeld is true if the ranks are stopped at
// present. If next is the zero time, nothing needs to be decided until something changes.
func (s *schedule) decide(now time.Time, isHeld bool) (hold bool, next time.Time) {
	competitors := s.competitors()
	if s.over || s.looked && len(competitors) == 0 {
		s.isNew = false
		return false, time.Time{}
	}
	if !s.looked {
		return true, time.Time{}
	}
	length, until := s.setting.At(now, s.gang.Slice)
	n, began := turns.Slice(now, length)
	if next = began.Add(length); !until.IsZero() {
		next = earlier(next, until)
	}
	switch known := s.claimed.Add(settleTime); {
	case s.isNew && now.Before(known):
		return true, known
	case s.isNew && s.settled == 0:
		s.settled = n
	}
	if s.isNew = s.isNew && s.settled == n; s.isNew {
		return true, earlier(next, now.Add(clockCheck))
	}
	runs := turns.Runs(s.gang.Party, competitors, s.gang.Parties, n)
	if resume := began.Add(continueDelay); runs && isHeld && now.Before(resume) {
		return true, resume
	}
	return !runs, earlier(next, now.Add(clockCheck))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// competition returns the numbers (parties) and the IDs of the jobs with which a job takes turns on a node. claims
// contains the claims of all jobs on the node.
func competition(claims []job.Claim, jobKey job.Key) (parties []int, jobs []job.ID) {
	job.ForEachShared(claims, func(c, other *job.Claim) {
		if c.Key() == jobKey {
			parties = append(parties, other.Gang.Party)
			jobs = append(jobs, other.Job)
		}
	})
	slices.Sort(jobs)
	jobs = slices.Compact(jobs)
	return idset.New(parties...), jobs[:min(len(jobs), maxJobs)]
}
