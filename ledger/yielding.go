package ledger

import (
	"cmp"
	"slices"

	"remshell/job"
)

// This file tells the claims of jobs that give way to others from all else (survive.md SV-33).

// mostWillingEach is how many jobs of one user are told apart; what he has more counts like any. So nobody
// hides the jobs of others by many of his own.
const mostWillingEach = 8

// A yielding adds up claims as a tally does, those of each job that gives way by itself.
type yielding struct {
	firm tally
	jobs map[job.Whose]*willingClaims
	each map[int]int // jobs of a user
}

type willingClaims struct {
	tally
	oldest Claim
}

func (y *yielding) add(c Claim) {
	if !c.Willing() {
		y.firm.add(c)
		return
	}
	key := c.Whose()
	w := y.jobs[key]
	if w == nil {
		if y.each[c.UID] == mostWillingEach || len(y.jobs) == job.MaxWilling {
			y.firm.add(c)
			return
		}
		if y.jobs == nil {
			y.jobs, y.each = make(map[job.Whose]*willingClaims), make(map[int]int)
		}
		w = &willingClaims{oldest: c}
		y.jobs[key] = w
		y.each[c.UID]++
	}
	if w.add(c); oldest(c, w.oldest) < 0 {
		w.oldest = c
	}
}

// willing are the jobs that give way, oldest first.
func (y *yielding) willing() (all []job.Willing) {
	for _, w := range y.jobs {
		c, use := w.oldest, w.use()
		all = append(all, job.Willing{Job: c.Job, UID: c.UID, User: nameOr(c.User, c.UID), How: c.Preemptible, Since: c.Since,
			Procs: use.Procs, Seated: use.Seated, Busy: use.Busy, GPUs: use.BusyGPUs})
	}
	slices.SortFunc(all, func(a, b job.Willing) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// Yielding is what of all these claims is of jobs that give way to who asks, and what the others hold; void if
// there are none. Those beyond job.MaxWilling count like any.
func (o Others) Yielding() (firm job.Use, willing []job.Willing) {
	var mine yielding
	for _, c := range o.Mine {
		mine.add(c)
	}
	willing = slices.Concat(mine.willing(), o.Willing)
	if len(willing) == 0 {
		return job.Use{}, nil
	}
	firm = mine.firm.use().And(o.Firm)
	told := min(len(willing), job.MaxWilling)
	for _, beyond := range willing[told:] {
		firm = firm.And(beyond.Holds())
	}
	return firm, willing[:told]
}
