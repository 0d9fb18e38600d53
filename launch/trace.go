package launch

import (
	"errors"
	"fmt"
	"time"

	"remshell/trace"
)

// traceStep begins the trace step of an attempt (one run of all ranks). If the job can have only one attempt, this is
// the step named Job.
func (l *attemptLoop) traceStep() trace.Step {
	if !l.request.Restart.AllowsSeveral() {
		return l.env.Trace.Begin(trace.Row{}, trace.Job)
	}
	return l.env.Trace.Begin(trace.Row{}, fmt.Sprintf("%s %d", trace.Attempt, len(l.attempts)))
}

// endTraceStep ends the trace step of an attempt (one run of all ranks). If the attempt failed, the step records the
// cause as its error. Moving a job to other nodes is not a failure.
func endTraceStep(step trace.Step, j *Job, err error) {
	if err == nil && j.State != nil && j.State.Cause != nil {
		if err = errors.New(j.State.Cause.Text); j.State.IsMoved() {
			step.Note(j.State.Cause.Text)
			err = nil
		}
	}
	step.End(err)
}

// reportSlowest logs which hosts took longest to start, if -v is given.
func (e Env) reportSlowest() {
	if log := e.Log.Info(); log.Enabled() {
		if line := slowestLine(e.Trace.Trace()); line != "" {
			log.Msg(line)
		}
	}
}

// slowestLine returns the line that reportSlowest logs. It is empty if the job has three hosts or fewer.
func slowestLine(t trace.Trace) string {
	const named = 3
	slow, hosts := trace.Slowest(t, named)
	if hosts <= named {
		return ""
	}
	line := ""
	for i, s := range slow {
		if i > 0 {
			line += ", "
		}
		line += fmt.Sprintf("%s %s (%s %s", s.Host, formatDuration(s.Took), s.Step.Step, formatDuration(s.Step.Took()))
		if s.Step.Why != "" {
			line += ", failed"
		}
		line += ")"
	}
	return "slowest hosts: " + line
}

// formatDuration formats a duration rounded to milliseconds, such as 1.234s or 12ms.
func formatDuration(d time.Duration) string { return d.Round(time.Millisecond).String() }

// GroupRow returns the row of the trace for the steps that mpiexec performs for a group of ranks. Group 0 consists of
// the ranks of the command line. Spawned groups are numbered from 1.
func GroupRow(number int) trace.Row {
	if number == 0 {
		return trace.Row{}
	}
	return trace.Row{Part: fmt.Sprintf("group %d", number), Order: number}
}
