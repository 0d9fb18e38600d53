/*
Package record puts what came of a run into JSON.

	job.Result --New--> Run: --report, and its usage and exits in --json
	                      '--Line--> accounting_file: one line of each job
	of a job that still runs --Underway--> Run without an end

It writes nothing itself.
*/
package record

import (
	"encoding/json"
	"io"
	"time"

	"remshell/job"
	"remshell/limits"
)

// A Run is what --report writes of a run: one JSON object. Times are in seconds,
// memory in bytes. What did not come to be is left out: a job that did not start has no
// starts, and perhaps no plan. What is not known before the end is null while the job runs.
type Run struct {
	Version  int             `json:"version"`
	Job      job.ID          `json:"job"`
	Began    time.Time       `json:"began"`
	End      *time.Time      `json:"end"`
	Seconds  float64         `json:"seconds"`
	Code     *int            `json:"code"`
	Cause    string          `json:"cause,omitempty"`
	RM       *job.RM         `json:"rm,omitempty"`   // the batch system whose hosts these were (RM-5)
	Plan     json.RawMessage `json:"plan,omitempty"` // as of --dry-run --json
	Connects []Connect       `json:"connects"`
	Starts   []Start         `json:"starts"`
	Exits    []Exit          `json:"exits"`
	Usage    []NodeTotal     `json:"usage"`
	JobUsage *JobUsage       `json:"all,omitempty"`      // what the job used; a job that did not start has none
	Cleaned  []Leftover      `json:"cleaned,omitempty"`  // shared memory that killed ranks have left
	Attempts []Attempt       `json:"attempts,omitempty"` // with --restart; the rest is about the last
}

// A Leftover is shared memory that a rank has left which did not end well (PD-17). Why is how it is known to
// have been the rank's: left; nothing else is.
type Leftover struct {
	Node  string `json:"node"`
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Bytes int64  `json:"bytes"`
	Rank  *int   `json:"rank"` // null: one of the node's
	Why   string `json:"why"`
	Error string `json:"error,omitempty"` // it is still there
}

// NewLeftover puts a remnant into the form of its record.
func NewLeftover(r job.Leftover) Leftover {
	record := Leftover{Node: r.Node, Kind: r.Kind, ID: r.ID, Bytes: r.Bytes, Why: "left", Error: r.Err}
	if r.Rank >= 0 {
		record.Rank = &r.Rank
	}
	return record
}

// An Attempt is one life of a job (survive.md SV-12).
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

// A Connect is how a candidate was reached.
type Connect struct {
	Node    string  `json:"node"`
	Host    string  `json:"host,omitempty"`
	Seconds float64 `json:"seconds"`
	Sent    int64   `json:"sent"`
	Error   string  `json:"error,omitempty"`

	Accounted *bool `json:"rm_accounted,omitempty"` // the batch system holds what runs there (RM-45); left out: nobody knows
}

// NewConnect puts a connect into the form of its record.
func NewConnect(c job.ConnectResult) Connect {
	return Connect{c.Node, c.Host, c.Took.Seconds(), c.BytesSent, c.Err, c.InBatchAccounting}
}

// A Start is a rank that runs, or why it does not.
type Start struct {
	Rank    int     `json:"rank"`
	Node    string  `json:"node"`
	PID     int     `json:"pid,omitempty"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// NewStart puts a start into the form of its record.
func NewStart(s job.RankStart) Start {
	return Start{s.Rank, s.Node, s.PID, s.SinceStart.Seconds(), s.Err}
}

// An Exit is the end of a rank.
type Exit struct {
	Rank      int    `json:"rank"`
	Code      int    `json:"code"`
	Signal    int    `json:"signal,omitempty"`
	Core      bool   `json:"core,omitempty"`
	ToldToEnd bool   `json:"asked,omitempty"` // we had told it to end
	PMI       string `json:"pmi"`
	Hint      string `json:"hint,omitempty"`
	WaitUsage
	*AccountedUsage
}

// NewExit puts an end into the form of its record.
func NewExit(e *job.Exit) Exit {
	return Exit{e.Rank, e.Status(), e.Signal, e.Core, e.ToldToEnd, pmiWords[e.PMI], e.Hint, usageOf(e.Usage), nil}
}

// A NodeTotal is what the ranks of a node have consumed.
type NodeTotal struct {
	Node  string `json:"node"`
	Ranks int    `json:"ranks"`
	WaitUsage
	*AccountedUsage
	Sessions []string `json:"sessions,omitempty"` // directories that stay (PMIX-56)
}

// WaitUsage is what wait4(2) tells.
type WaitUsage struct {
	Wall   float64 `json:"wall"`
	User   float64 `json:"user"`
	System float64 `json:"system"`
	MaxRSS int64   `json:"max_rss"` // of the largest process
}

func usageOf(u job.Usage) WaitUsage {
	return WaitUsage{u.Wall.Seconds(), u.User.Seconds(), u.System.Seconds(), u.MaxRSS}
}

// AccountedUsage is what accounting tells (RM-53); what is not known is null.
type AccountedUsage struct {
	CPU  float64 `json:"cput"`
	Mem  *int64  `json:"mem"`
	VMem *int64  `json:"vmem"`
	Wall float64 `json:"walltime"`
}

// JobUsage is that of the job.
type JobUsage struct {
	AccountedUsage
	Sampled bool                    `json:"sampled"`  // on all hosts
	Reason  *string                 `json:"reason"`   // of the end, in a word
	Limits  map[limits.Resource]any `json:"limits"`   // bytes, seconds, counts
	Every   float64                 `json:"interval"` // at most, between two samples, in seconds
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

// roundedSeconds are seconds with three decimals.
func roundedSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// AddUsage adds what a job has used to its record, and what it was allowed.
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

// NewRun is the record of a run that is over, with the exit code that mpiexec leaves with.
func NewRun(result job.Result, err error, code int) Run {
	r := NewInterim(result)
	now := time.Now()
	if r.End, r.Code, r.Cause = &now, &code, result.Cause; err != nil {
		r.Cause = err.Error()
	}
	return r
}

// NewInterim is the record of a run that goes on.
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
	for _, left := range result.Leftovers {
		r.Cleaned = append(r.Cleaned, NewLeftover(left))
	}
	for _, a := range result.Attempts {
		r.Attempts = append(r.Attempts, Attempt{a.Number, a.Began, a.Ended, a.Reason, a.Cause, a.Nodes, a.Size, append([]string{}, a.Lost...), a.Exit})
	}
	for _, h := range result.NodeTotals {
		r.Usage = append(r.Usage, NodeTotal{h.Node, h.Ranks, usageOf(h.Usage), nil, h.KeptSessions})
	}
	return r
}

// Write writes a record for people and programs.
func (r Run) Write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
