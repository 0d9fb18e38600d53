package launch

import (
	"time"

	"remshell/job"
)

// A telling tells, now and then while a job runs, what it has come to so far (--report-every).
type telling struct {
	tell  func(job.Result) // nil: nobody wants to know
	every time.Duration
	due   time.Time
}

func newTelling(env Env) telling {
	p := telling{tell: env.Interim, every: env.Every}
	if p.tell != nil {
		p.due = time.Now().Add(p.every)
	}
	return p
}

// sooner is the first of two moments, of which the zero time is none.
func sooner(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// note tells, if it is time to.
func (p *telling) note(f *fleet) {
	if now := time.Now(); p.tell != nil && !now.Before(p.due) {
		p.due = now.Add(p.every)
		p.tell(f.soFar())
	}
}

// soFar is what has come of a job that runs: of times that end with a rank, it has what was until now.
func (f *fleet) soFar() job.Result {
	tally := f.state.Tally.Whole()
	r := f.gathered(&tally)
	ran := time.Since(f.account.began)
	for i, h := range r.Hosts {
		if h.Ended < h.Ranks {
			r.Used.Nodes[i].Wall = ran
		}
	}
	if f.state.Left > 0 {
		r.Used.All.Wall = ran
	}
	return r
}
