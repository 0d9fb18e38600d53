package request

import (
	"fmt"
	"strings"
	"time"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
	"remshell/limit"
)

// deadline sees that it is known when the job has to end, if somebody wants to act before (RM-58).
func (w World) deadline(req *job.Request, j option.Job) error {
	req.Limits.Warn = job.Warning{Signal: j.Warn.Number, Before: j.Warn.Before}
	req.Limits.Margin = j.RMMargin.Duration()
	if req.Limits.Warn.Signal == 0 && req.Limits.Margin == 0 && req.Ckpt.Before == 0 {
		return nil
	}
	if req.RM != nil && req.RM.End.IsZero() && req.RM.Name == "slurm" && w.Run != nil {
		req.RM.End = w.endOfSlurmJob(req.RM.Job)
		w.Grant.End = req.RM.End // it need not be asked again
	}
	ends := req.RM != nil && !req.RM.End.IsZero()
	switch _, limited := req.Bounds[limit.WallTime]; {
	case req.Limits.Margin > 0 && req.RM == nil:
		return &fault.Error{Text: "--rm-margin has a meaning only in a job of a batch system", Remedy: "use --limit walltime=, or leave it out"}
	case req.Limits.Margin > 0 && !ends:
		return &fault.Error{Text: fmt.Sprintf("--rm-margin: when %s job %s ends is not known", req.RM.Name, req.RM.Job), Remedy: "use --limit walltime="}
	case !ends && !limited && req.Limits.Run == 0 && req.Limits.Warn.Signal == 0:
		return &fault.Error{Text: "--ckpt-before: when this job ends is not known", Remedy: "use --limit walltime= or -timeout"}
	case !ends && !limited && req.Limits.Run == 0:
		return &fault.Error{Text: "--warn: when this job ends is not known", Remedy: "use --limit walltime="}
	}
	return nil
}

// enforce has us see that the job uses no more memory on each host than the batch system gave it there
// (RM-55). Of limits of the job's own the smaller counts.
func (w World) enforce(req *job.Request) error {
	if req.RM == nil {
		return &fault.Error{Text: "--enforce-rm has a meaning only on the hosts of a batch system's job", Remedy: "use --limit hmem=, or leave it out"}
	}
	given := make(map[string]int64)
	for _, h := range w.Grant.Hosts {
		given[h.Name] = h.Bytes
	}
	largest := int64(0)
	for i := range req.Nodes {
		n := &req.Nodes[i]
		if n.Bytes = given[n.Name]; n.Bytes == 0 {
			return &fault.Error{Text: fmt.Sprintf("--enforce-rm: how much memory %s job %s has on %s is not known", req.RM.Name, req.RM.Job, n.Name), Remedy: "use --limit hmem="}
		}
		largest = max(largest, n.Bytes)
	}
	limit.Tighten(req.Bounds, req.Origins, limit.Bounds{limit.HostMem: largest}, fmt.Sprintf("%s job %s", req.RM.Name, req.RM.Job))
	req.Ends.Samples = true
	return nil
}

// endOfSlurmJob is what Slurm says of the end of a job, if anything; older versions tell it nowhere else.
func (w World) endOfSlurmJob(id string) time.Time {
	text, err := w.Run("squeue", "-h", "-j", id, "-o", "%e")
	end, junk := time.ParseInLocation("2006-01-02T15:04:05", strings.TrimSpace(text), time.Local)
	if err != nil || junk != nil {
		return time.Time{} // "N/A", of a job without a limit
	}
	return end
}
