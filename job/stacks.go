package job

import "time"

// A StackFrame is one call on a stack. A text field is empty if its value is not known.
type StackFrame struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`    // of the source, without folders
	Line     int    `json:"line,omitempty"`    // 0: unknown
	Library  string `json:"library,omitempty"` // ELF file with the function, without folders; "Python" for a function of Python
}

// A StackState says what the threads of a StackGroup are doing.
type StackState string

// These are the states of threads.
const (
	StackRuns    StackState = "runs"    // uses a CPU, or waits for one
	StackSleeps  StackState = "sleeps"  // waits in the kernel
	StackBlocked StackState = "blocked" // waits in the kernel and cannot be interrupted
	StackStopped StackState = "stopped" // by a signal
	StackEnded   StackState = "ended"   // the process has ended, and its parent has not waited for it
)

// IsKnown reports whether s is one of the states of threads that this package defines.
func (s StackState) IsKnown() bool {
	switch s {
	case StackRuns, StackSleeps, StackBlocked, StackStopped, StackEnded:
		return true
	}
	return false
}

// A StackGroup is a set of threads that have the same stack. The threads may belong to several ranks.
type StackGroup struct {
	Ranks   []int        `json:"ranks"`              // ascending
	Nodes   []string     `json:"nodes,omitempty"`    // of the ranks; mpiexec adds them
	Thread  string       `json:"thread,omitempty"`   // name of threads other than the main ones; empty: main threads
	Threads int          `json:"threads"`            // how many there are
	State   StackState   `json:"state"`              // of most of them
	Signal  string       `json:"signal,omitempty"`   // the signal that has stopped all of them; empty: they run, or it is unknown
	WaitsIn string       `json:"waits_in,omitempty"` // kernel function in which all of them sleep
	Note    string       `json:"note,omitempty"`     // why the stack is missing or not whole
	Frames  []StackFrame `json:"frames"`             // outermost first
}

// A StackReport contains the stacks of a job's ranks.
type StackReport struct {
	Groups []StackGroup `json:"groups"`
	Notes  []string     `json:"notes,omitempty"` // what is missing, and why
}

// A StackReason says why the stacks of all ranks were read.
type StackReason string

// These are the reasons for which stacks are recorded.
const (
	StacksOfHang    StackReason = "no_progress" // --hang
	StacksOfTimeout StackReason = "timeout"     // --on-timeout stacks
)

// A StackRecord contains the stacks of all ranks at one moment, for the report of a run. A string that is
// not known is empty.
type StackRecord struct {
	Time    time.Time
	Why     StackReason
	Quiet   time.Duration // how long nothing had changed; 0: unknown
	Summary string        // for people: what most ranks do
	Likely  string        // for people: which ranks seem to keep the others waiting, and why
	Fault   string        // code of a known fault of the MPI library that explains the stacks (package mpifault)
	Report  StackReport
}

// These are the maximum sizes of texts and lists in a StackReport.
const (
	MaxStackGroups = 1024
	MaxStackFrames = 64 // of one group
	MaxStackNotes  = 64
)

// Truncated returns r with texts cut to 256 bytes and lists cut to their maximum sizes. It is applied to reports
// that another user may have written.
func (r StackReport) Truncated() StackReport {
	r.Groups, r.Notes = r.Groups[:min(len(r.Groups), MaxStackGroups)], r.Notes[:min(len(r.Notes), MaxStackNotes)]
	for i := range r.Notes {
		r.Notes[i] = truncate(r.Notes[i])
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		g.Frames = g.Frames[:min(len(g.Frames), MaxStackFrames)]
		for _, word := range []*string{&g.Thread, &g.Signal, &g.WaitsIn, &g.Note, (*string)(&g.State)} {
			*word = truncate(*word)
		}
		for j := range g.Nodes {
			g.Nodes[j] = truncate(g.Nodes[j])
		}
		for j := range g.Frames {
			f := &g.Frames[j]
			f.Function, f.File, f.Library = truncate(f.Function), truncate(f.File), truncate(f.Library)
		}
	}
	return r
}
