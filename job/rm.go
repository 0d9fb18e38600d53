package job

import (
	"encoding/json"
	"strings"
	"time"

	"remshell/batch"
)

// An RM is a batch system (resource manager) that has granted the hosts of a job (RM-5).
type RM struct {
	Name, Job   string    // Job is its number there; empty: it has none
	Step        string    // the part of the job whose hosts these are; empty: all of it
	Hosts       int       // of the allocation
	Tasks, CPUs int       // of all of them; 0: not said
	End         time.Time // of the allocation; zero: unknown
	Starter     string    // what reaches the hosts: ssh, fork, srun
	Integration Integration
}

// An Integration is what a batch system sees of the ranks.
type Integration string

const (
	TightIntegration Integration = "tight" // all of them: its own starter starts our helpers
	LooseIntegration Integration = "loose" // those of the launching host
)

// MarshalJSON is how plan and report tell it: seconds since 1970 for the end, null for what is not
// known.
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

// ControlsHelpers reports whether the batch system has started the helpers on all nodes, so that what it
// does to their processes it does to the ranks alike.
func (r *RM) ControlsHelpers() bool {
	return r != nil && r.Integration == TightIntegration && r.Starter != "fork"
}

// SignalsRanks reports whether a signal of the batch system's to what its starter has started goes to the ranks
// as well. Of others it is known that they signal the process group of the task, or nobody has seen it. A rank is in a group of its own.
func (r *RM) SignalsRanks() bool {
	if !r.ControlsHelpers() {
		return false
	}
	s := batch.Named(r.Name)
	return s != nil && s.Signals
}

// Accounts reports whether a batch system holds a helper, below what process of a batch system's that may be; nil:
// nobody knows.
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

// Holder is the process that a batch system has above what it holds, for people.
func (r *RM) Holder() string {
	s := batch.Named(r.Name)
	if s == nil {
		return ""
	}
	return strings.Join(s.Holder.Processes, " or ")
}

// ID tells what batch systems have granted apart, "slurm 4711" or "slurm 4711.2" for a step, in at
// most 100 printable bytes; empty: nothing does.
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
