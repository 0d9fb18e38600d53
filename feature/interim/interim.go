// Package interim is a feature: it reports the result so far at regular intervals while a job runs (--report-every).
package interim

import (
	"time"

	"remshell/launch"
)

func init() { launch.Register(launch.Feature{Name: "interim results", Attach: attach}) }

func attach(j *launch.Job) {
	if j.Env.InterimResult == nil {
		return
	}
	next := time.Now().Add(j.Env.InterimEvery)
	j.Hooks.Due.Add(func(now time.Time) time.Time {
		if !now.Before(next) {
			next = now.Add(j.Env.InterimEvery)
			j.Env.InterimResult(j.ResultSoFar())
		}
		return next
	})
}
