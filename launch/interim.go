package launch

import (
	"time"

	"remshell/job"
)

// An interimReporter reports the result so far at regular intervals (--report-every).
type interimReporter struct {
	report   func(job.Result) // nil: nothing is reported
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

// earlier returns the earlier of two times. The zero time means never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// reportIfDue reports if the interval has passed.
func (p *interimReporter) reportIfDue(f *Job) {
	if now := time.Now(); p.report != nil && !now.Before(p.due) {
		p.due = now.Add(p.interval)
		p.report(f.interimResult())
	}
}

// interimResult returns the result so far of a job that runs. For ranks that have not ended, times
// count until now.
func (j *Job) interimResult() job.Result {
	tally := j.usageTotals.CompleteSeconds()
	r := j.rankResults(&tally)
	ran := time.Since(j.usage.ranksStarted)
	for i, h := range r.NodeTotals {
		if h.EndedRanks < h.Ranks {
			r.Usage.Nodes[i].Wall = ran
		}
	}
	if j.State.RanksLeft > 0 {
		r.Usage.Job.Wall = ran
	}
	return r
}
