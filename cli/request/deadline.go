package request

import (
	"fmt"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
	"remshell/limit"
)

// deadline sees that it is known when the job has to end, if somebody wants to act before (RM-58).
func (w World) deadline(req *job.Request, j option.Job) error {
	req.Limits.Warn = job.Warning{Signal: j.Warn.Number, Before: j.Warn.Before}
	req.Limits.Margin = j.BatchOption().Margin
	if req.Limits.Warn.Signal == 0 && req.Limits.Margin == 0 && req.Ckpt.Before == 0 {
		return nil
	}
	if req.RM != nil && req.RM.End.IsZero() && w.Run != nil {
		if s := batch.Named(req.RM.Name); s != nil && s.End != nil {
			req.RM.End = s.End(w.Run, req.RM.Job)
			w.Grant.End = req.RM.End // it need not be asked again
		}
	}
	ends := req.RM != nil && !req.RM.End.IsZero()
	switch _, limited := req.Bounds[limit.WallTime]; {
	case req.Limits.Margin > 0 && req.RM == nil:
		return &fault.Error{Text: "--batch-option margin= has a meaning only in a job of a batch system", Remedy: "use --limit walltime=, or leave it out"}
	case req.Limits.Margin > 0 && !ends:
		return &fault.Error{Text: fmt.Sprintf("--batch-option margin=: when %s job %s ends is not known", req.RM.Name, req.RM.Job), Remedy: "use --limit walltime="}
	case !ends && !limited && req.Limits.Run == 0 && req.Limits.Warn.Signal == 0:
		return &fault.Error{Text: "--ckpt-before: when this job ends is not known", Remedy: "use --limit walltime= or -timeout"}
	case !ends && !limited && req.Limits.Run == 0:
		return &fault.Error{Text: "--warn: when this job ends is not known", Remedy: "use --limit walltime="}
	}
	return nil
}
