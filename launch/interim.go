package launch

import (
	"time"

	"remshell/job"
)

// An interimReporter tells, now and then while a job runs, what it has come to so far (--report-every).
type interimReporter struct {
	report   func(job.Result) // nil: nobody wants to know
	interval time.Duration
	due      time.Time
}

func newInterimReporter(env Env) interimReporter {
	p := interimReporter{report: env.InterimResult, interval: env.InterimEvery}
	if p.report != nil {
		p.due = time.Now().Add(p.interval)
	}
	return p
}

// earlier is the first of two moments, of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// reportIfDue tells, if it is time to.
func (p *interimReporter) reportIfDue(f *runningJob) {
	if now := time.Now(); p.report != nil && !now.Before(p.due) {
		p.due = now.Add(p.interval)
		p.report(f.interimResult())
	}
}

// interimResult is what has come of a job that runs: of times that end with a rank, it has what was until now.
func (f *runningJob) interimResult() job.Result {
	tally := f.state.Usage.CompleteSeconds()
	r := f.rankResults(&tally)
	ran := time.Since(f.usage.ranksStarted)
	for i, h := range r.NodeTotals {
		if h.EndedRanks < h.Ranks {
			r.Usage.Nodes[i].Wall = ran
		}
	}
	if f.state.RanksLeft > 0 {
		r.Usage.Job.Wall = ran
	}
	return r
}
