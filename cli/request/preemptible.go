package request

import (
	"remshell/fault"
	"remshell/job"
)

// preemptible is the refusal of a job that is to give way and cannot (survive.md SV-33).
func preemptible(req job.Request) error {
	switch {
	case req.Preemptible == "":
	case req.Exclusive:
		return &fault.Error{Text: "--preemptible and --exclusive exclude each other: nobody could have its CPUs", Remedy: "keep one"}
	case req.Overbook && !req.Home:
		return &fault.Error{Text: "--preemptible and --overbook exclude each other: that wants its nodes for itself", Remedy: "keep one"}
	case req.Preemptible == job.YieldByRequeueing && req.Ends.Children:
		return &fault.Error{Text: "--preemptible=requeue and --leave-children exclude each other: what stays would meet the next attempt", Remedy: "keep one"}
	case req.RM != nil:
		return &fault.Error{Text: "--preemptible: whose these hosts are, " + req.RM.Name + " decides", Remedy: "leave it out"}
	}
	return nil
}
