package job

import (
	"encoding/json"
	"strings"
	"time"

	"remshell/batch"
)

// An RM is an allocation of a batch system (resource manager) that contains the job's hosts (rule RM-5).
type RM struct {
	Name, Job   string    // Name is the batch system, Job the job's ID in it; empty: none
	Step        string    // the step that granted the hosts; empty: the whole batch job
	Hosts       int       // number of hosts in the allocation
	Tasks, CPUs int       // of all hosts; 0: unknown
	End         time.Time // end of the allocation; zero: unknown
	Starter     string    // program that starts helpers on the hosts: ssh, fork, srun
	Integration Integration
}

// An Integration says whether the batch system accounts for all ranks, or only for those that it has started.
type Integration string

const (
	TightIntegration Integration = "tight" // all: the batch system's own launcher starts our helpers
	LooseIntegration Integration = "loose" // only those on the launching host
)

// MarshalJSON returns r as --plan and --report show it. The end of the allocation is in seconds since 1970, or null if
// it is unknown.
func (r RM) MarshalJSON() ([]byte, error) {
	var end *int64
	if !r.End.IsZero() {
		end = new(int64)
		*end = r.End.Unix()
	}
	return json.Marshal(struct {
		Name    string      `json:"name"`
		Job     string      `json:"job"`
		Hosts   int         `json:"hosts"`
		Tasks   int         `json:"tasks"`
		CPUs    int         `json:"cpus"`
		End     *int64      `json:"end"`
		Starter string      `json:"starter"`
		Grade   Integration `json:"grade"`
	}{r.Name, r.Job, r.Hosts, r.Tasks, r.CPUs, end, r.Starter, r.Integration})
}

// ControlsHelpers reports whether the batch system has started the helpers on all nodes, so that its signals
// and limits also reach the ranks. For a nil RM it returns false.
func (r *RM) ControlsHelpers() bool {
	return r != nil && r.Integration == TightIntegration && r.Starter != "fork"
}

// SignalsRanks reports whether the batch system's signals to its task also reach the ranks, each of which has a process
// group of its own. It returns false if the batch system is not known to signal other process groups than the task's.
func (r *RM) SignalsRanks() bool {
	if !r.ControlsHelpers() {
		return false
	}
	s := batch.Named(r.Name)
	return s != nil && s.Signals
}

// Accounts reports whether the batch system accounts for the processes of a helper. holder is the name of the
// batch system's process from which the helper descends, or "". Accounts returns nil if the answer is unknown.
func (r *RM) Accounts(holder string) *bool {
	if r == nil {
		return nil
	}
	s := batch.Named(r.Name)
	if s == nil || s.Holder.Processes == nil {
		return nil
	}
	held := s.Holder.Has(holder)
	return &held
}

// Holder returns the names of the batch system's processes whose descendants it accounts for, as one text: "A or
// B". It returns "" if the names are unknown.
func (r *RM) Holder() string {
	s := batch.Named(r.Name)
	if s == nil {
		return ""
	}
	return strings.Join(s.Holder.Processes, " or ")
}

// ID returns an identifier of the allocation, such as "slurm 4711", or "slurm 4711.2" for a step. It consists of at
// most 100 printable bytes. ID returns "" if the allocation has no usable identifier.
func (r *RM) ID() string {
	if r == nil || r.Job == "" {
		return ""
	}
	id := r.Name + " " + r.Job
	if r.Step != "" {
		id += "." + r.Step
	}
	if len(id) > 100 || strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c > '~' }) {
		return ""
	}
	return id
}
