package request

import (
	"fmt"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/job"
	"remshell/limits"
	"remshell/usererr"
)

// setDeadline finds out when the batch job ends, if an option needs that time (rule RM-58). It returns an
// error if the end is unknown.
func (w Inputs) setDeadline(req *job.Request, line option.Line) error {
	j := line.Job
	req.TimeLimits.Warn = job.EndWarning{Signal: j.Warn.Number, Before: j.Warn.TimeBefore}
	req.TimeLimits.Margin = line.BatchOption(req.RM != nil).Margin
	if req.TimeLimits.Warn.Signal == 0 && req.TimeLimits.Margin == 0 && w.NeedsEnd == "" {
		return nil
	}
	if req.RM != nil && req.RM.End.IsZero() && w.RunTool != nil {
		if s := batch.Named(req.RM.Name); s != nil && s.End != nil {
			req.RM.End = s.End(w.RunTool, req.RM.Job)
			w.Allocation.End = req.RM.End // saves asking again
		}
	}
	ends := req.RM != nil && !req.RM.End.IsZero()
	switch _, limited := req.ResourceLimits[limits.WallTime]; {
	case req.TimeLimits.Margin > 0 && req.RM == nil:
		return line.BatchOptionError("margin", &usererr.Error{Text: "--batch-option margin=TIME works only in a job of a batch system", Remedy: "use -timeout instead of margin=TIME"})
	case req.TimeLimits.Margin > 0 && !ends:
		return line.BatchOptionError("margin", &usererr.Error{Text: fmt.Sprintf("--batch-option margin=TIME: mpiexec does not know when %s ends", batch.JobName(req.RM.Name, req.RM.Job)), Remedy: "use -timeout instead of margin=TIME"})
	case !ends && !limited && req.TimeLimits.Run == 0 && req.TimeLimits.Warn.Signal == 0:
		return &usererr.Error{Text: w.NeedsEnd + ": mpiexec does not know when this job has to end", Remedy: "set a time limit with -timeout"}
	case !ends && !limited && req.TimeLimits.Run == 0:
		return &usererr.Error{Text: "--warn: mpiexec does not know when this job has to end", Remedy: "set a time limit with -timeout"}
	}
	return nil
}
