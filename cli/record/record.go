/*
Package record creates the JSON description of a run.

	job.Result --NewRun--> Run: written by --report; --json contains its usage and exits
	                         '--AccountingLine--> accounting_file: one line for each job
	job.Result of a running job --NewInterim--> Run without an end

It opens no files.
*/
package record

import (
	"encoding/json"
	"io"
	"time"

	"remshell/job"
	"remshell/limits"
)

// A Run is the JSON object that --report writes. Times are in seconds, memory is in bytes. Parts that do not
// exist are left out. For example, a job that was never started has no starts. Fields that are known only at
// the end are null while the job runs.
type Run struct {
	Version  int             `json:"version"`
	Job      job.ID          `json:"job"`
	Began    time.Time       `json:"began"`
	End      *time.Time      `json:"end"`
	Seconds  float64         `json:"seconds"`
	Code     *int            `json:"code"`
	Cause    string          `json:"cause,omitempty"`
	RM       *job.RM         `json:"rm,omitempty"`   // the batch system that allocated the hosts (RM-5)
	Plan     json.RawMessage `json:"plan,omitempty"` // in the form of --dry-run --json
	Connects []Connect       `json:"connects"`
	Starts   []Start         `json:"starts"`
	Exits    []Exit          `json:"exits"`
	Usage    []NodeTotal     `json:"usage"`
	JobUsage *JobUsage       `json:"all,omitempty"`      // usage of the whole job; nil if it did not start
	Gang     *GangUsage      `json:"gang,omitempty"`     // with --gang: how the job took turns
	Cleaned  []Leftover      `json:"cleaned,omitempty"`  // shared memory and semaphores freed after ranks were killed
	Stacks   []TimedStacks   `json:"stacks,omitempty"`   // of all ranks, from --hang and --on-timeout stacks
	Attempts []Attempt       `json:"attempts,omitempty"` // with --restart; the other fields describe the last attempt
}

// A GangUsage describes a job that took turns with other jobs: for how many seconds its ranks ran, for how many
// seconds they were stopped, and how often.
type GangUsage struct {
	Ran      float64 `json:"ran"`
	Stopped  float64 `json:"stopped"`
	Switches int     `json:"switches"`
}

// A Leftover is shared memory, or a semaphore set, that a rank has left behind because it ended abnormally (rule
// PD-17). Its field Why is always "left".
type Leftover struct {
	Node  string `json:"node"`
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Bytes int64  `json:"bytes"`
	Rank  *int   `json:"rank"` // null: the node is known, the rank is not
	Why   string `json:"why"`
	Error string `json:"error,omitempty"` // why it could not be freed
}

// NewLeftover returns the JSON form of something that a rank has left behind, such as shared memory.
func NewLeftover(r job.Leftover) Leftover {
	record := Leftover{Node: r.Node, Kind: r.Kind, ID: r.ID, Bytes: r.Bytes, Why: "left", Error: r.Err}
	if r.Rank >= 0 {
		record.Rank = &r.Rank
	}
	return record
}

// Stacks contains the stacks of all ranks at one moment, and says why mpiexec has read them.
type Stacks struct {
	Why     job.StackReason `json:"why"`
	Quiet   float64         `json:"quiet_seconds,omitempty"` // how long nothing had changed
	Summary string          `json:"summary,omitempty"`
	Likely  string          `json:"likely,omitempty"` // which ranks seem to keep the others waiting
	Fault   string          `json:"known_fault,omitempty"`
	job.StackReport
}

// TimedStacks is Stacks with the time at which the stacks were read.
type TimedStacks struct {
	Time time.Time `json:"time"`
	Stacks
}

// NewStacks returns the JSON form of recorded stacks.
func NewStacks(r job.StackRecord) TimedStacks {
	return TimedStacks{r.Time, Stacks{r.Why, roundedSeconds(r.Quiet), r.Summary, r.Likely, r.Fault, r.Report}}
}

// An Attempt describes one run of all ranks of a job that may be restarted (survive.md SV-12).
type Attempt struct {
	Attempt int       `json:"attempt"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Reason  string    `json:"reason"`
	Cause   string    `json:"cause,omitempty"`
	Nodes   []string  `json:"nodes"`
	Size    int       `json:"size"`
	Lost    []string  `json:"lost"`
	Exit    int       `json:"exit"`
}

// A Connect is the result of connecting to a candidate node.
type Connect struct {
	Node    string  `json:"node"`
	Host    string  `json:"host,omitempty"`
	Seconds float64 `json:"seconds"`
	Sent    int64   `json:"sent"`
	Error   string  `json:"error,omitempty"`

	Accounted *bool `json:"rm_accounted,omitempty"` // whether the batch system accounts for the ranks there (RM-45); left out if unknown
}

// NewConnect returns the JSON form of a connect result.
func NewConnect(c job.ConnectResult) Connect {
	return Connect{c.Node, c.Host, c.Took.Seconds(), c.BytesSent, c.Err, c.InBatchAccounting}
}

// A Start describes the start of a rank, or why it failed.
type Start struct {
	Rank    int     `json:"rank"`
	Node    string  `json:"node"`
	PID     int     `json:"pid,omitempty"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// NewStart returns the JSON form of a rank's start.
func NewStart(s job.RankStart) Start {
	return Start{s.Rank, s.Node, s.PID, s.SinceStart.Seconds(), s.Err}
}

// An Exit describes the end of a rank.
type Exit struct {
	Rank      int    `json:"rank"`
	Code      int    `json:"code"`
	Signal    int    `json:"signal,omitempty"`
	Core      bool   `json:"core,omitempty"`
	ToldToEnd bool   `json:"asked,omitempty"` // it ended after mpiexec told it to
	PMI       string `json:"pmi"`
	Hint      string `json:"hint,omitempty"`
	WaitUsage
	*AccountedUsage
}

// NewExit returns the JSON form of a rank's exit.
func NewExit(e *job.Exit) Exit {
	return Exit{e.Rank, e.Status(), e.Signal, e.Core, e.ToldToEnd, pmiWords[e.PMI], e.Hint, usageOf(e.Usage), nil}
}

// A NodeTotal is the total resource usage of a node's ranks.
type NodeTotal struct {
	Node  string `json:"node"`
	Ranks int    `json:"ranks"`
	WaitUsage
	*AccountedUsage
	Sessions []string `json:"sessions,omitempty"` // session directories that were kept (PMIX-56)
}

// A WaitUsage is the resource usage of a process, as wait4(2) returns it.
type WaitUsage struct {
	Wall   float64 `json:"wall"`
	User   float64 `json:"user"`
	System float64 `json:"system"`
	MaxRSS int64   `json:"max_rss"` // of the largest process
}

func usageOf(u job.Usage) WaitUsage {
	return WaitUsage{u.Wall.Seconds(), u.User.Seconds(), u.System.Seconds(), u.MaxRSS}
}

// An AccountedUsage is resource usage from the kernel's accounting (rule RM-53). Unknown values are null.
type AccountedUsage struct {
	CPU  float64 `json:"cput"`
	Mem  *int64  `json:"mem"`
	VMem *int64  `json:"vmem"`
	Wall float64 `json:"walltime"`
}

// A JobUsage contains the resource usage and limits of the whole job.
type JobUsage struct {
	AccountedUsage
	Sampled bool                    `json:"sampled"`  // on all hosts there were samples
	Reason  *string                 `json:"reason"`   // why the job ended, one word
	Limits  map[limits.Resource]any `json:"limits"`   // in bytes, seconds or counts
	Every   float64                 `json:"interval"` // longest time between two samples, in seconds
}

func accountedUsageOf(u job.UsageTotal) AccountedUsage {
	r := AccountedUsage{CPU: roundedSeconds(u.CPU), Wall: roundedSeconds(u.Wall)}
	if u.Mem > 0 {
		r.Mem = &u.Mem
	}
	if u.Sampled {
		r.VMem = &u.VMem
	}
	return r
}

// roundedSeconds returns a duration in seconds, rounded to three decimals.
func roundedSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// AddUsage adds the job's resource usage and its limits to the record.
func (r *Run) AddUsage(result job.Result, bounds limits.Map) {
	if len(result.Usage.Nodes) == 0 {
		return
	}
	for i, e := range result.Exits {
		u := accountedUsageOf(result.Usage.Ranks[e.Rank])
		r.Exits[i].AccountedUsage = &u
	}
	for i := range result.NodeTotals {
		u := accountedUsageOf(result.Usage.Nodes[i])
		r.Usage[i].AccountedUsage = &u
	}
	r.JobUsage = &JobUsage{accountedUsageOf(result.Usage.Job), result.Usage.Job.Sampled, nil, bounds.Numbers(), job.SampleInterval(bounds.AnyMatching(limits.Resource.IsSampled)).Seconds()}
	if r.End != nil {
		r.JobUsage.Reason = &result.Reason
	}
}

var pmiWords = map[job.PMIState]string{
	job.PMIUnused: "never", job.PMIOpen: "open", job.PMIFinalized: "finalized", job.PMIAborted: "aborted",
}

// NewRun returns the record of a run that has ended. code is the exit code of mpiexec.
func NewRun(result job.Result, err error, code int) Run {
	r := NewInterim(result)
	now := time.Now()
	if r.End, r.Code, r.Cause = &now, &code, result.Cause; err != nil {
		r.Cause = err.Error()
	}
	return r
}

// NewInterim returns the record of a run that has not ended.
func NewInterim(result job.Result) Run {
	r := Run{Version: 1, Connects: []Connect{}, Starts: []Start{}, Exits: []Exit{}, Usage: []NodeTotal{}}
	for _, c := range result.Connections {
		r.Connects = append(r.Connects, NewConnect(c))
	}
	if result.Starts != nil {
		for s := range result.Starts {
			r.Starts = append(r.Starts, NewStart(s))
		}
	}
	for _, e := range result.Exits {
		r.Exits = append(r.Exits, NewExit(e))
	}
	if g := result.Gang; g != nil {
		r.Gang = &GangUsage{roundedSeconds(g.Ran), roundedSeconds(g.Stopped), g.Switches}
	}
	for _, left := range result.Leftovers {
		r.Cleaned = append(r.Cleaned, NewLeftover(left))
	}
	for _, s := range result.Stacks {
		r.Stacks = append(r.Stacks, NewStacks(s))
	}
	for _, a := range result.Attempts {
		r.Attempts = append(r.Attempts, Attempt{a.Number, a.Began, a.Ended, a.Reason, a.Cause, a.Nodes, a.Size, append([]string{}, a.Lost...), a.Exit})
	}
	for _, h := range result.NodeTotals {
		r.Usage = append(r.Usage, NodeTotal{h.Node, h.Ranks, usageOf(h.Usage), nil, h.KeptSessions})
	}
	return r
}

// Write writes the record as indented JSON.
func (r Run) Write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
