package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"remshell/job"
	"remshell/limit"
	"remshell/show"
	"remshell/whatif"
)

// A record is what --report writes of a run: one JSON object. Times are in seconds,
// memory in bytes. What did not come to be is left out: a job that did not start has no
// starts, and perhaps no plan.
type record struct {
	Version  int             `json:"version"`
	Job      job.ID          `json:"job"`
	Began    time.Time       `json:"began"`
	Seconds  float64         `json:"seconds"`
	Code     int             `json:"code"`
	Cause    string          `json:"cause,omitempty"`
	RM       *job.RM         `json:"rm,omitempty"`   // the batch system whose hosts these were (RM-5)
	Plan     json.RawMessage `json:"plan,omitempty"` // as of --dry-run --json
	Connects []connectRecord `json:"connects"`
	Starts   []startRecord   `json:"starts"`
	Exits    []exitRecord    `json:"exits"`
	Usage    []totalRecord   `json:"usage"`
	All      *allRecord      `json:"all,omitempty"` // what the job used; a job that did not start has none
}

type connectRecord struct {
	Node    string  `json:"node"`
	Host    string  `json:"host,omitempty"`
	Seconds float64 `json:"seconds"`
	Sent    int64   `json:"sent"`
	Error   string  `json:"error,omitempty"`
}

type startRecord struct {
	Rank    int     `json:"rank"`
	Node    string  `json:"node"`
	PID     int     `json:"pid,omitempty"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

type exitRecord struct {
	Rank   int    `json:"rank"`
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	Core   bool   `json:"core,omitempty"`
	Asked  bool   `json:"asked,omitempty"` // we had told it to end
	PMI    string `json:"pmi"`
	Hint   string `json:"hint,omitempty"`
	usageRecord
	*usedRecord
}

func newExit(e job.Exit) exitRecord {
	return exitRecord{e.Rank, e.Status(), e.Signal, e.Core, e.Asked, pmiWords[e.PMI], e.Hint, usageOf(e.Usage), nil}
}

type totalRecord struct {
	Node  string `json:"node"`
	Ranks int    `json:"ranks"`
	usageRecord
	*usedRecord
}

type usageRecord struct {
	Wall   float64 `json:"wall"`
	User   float64 `json:"user"`
	System float64 `json:"system"`
	MaxRSS int64   `json:"max_rss"` // of the largest process
}

func usageOf(u job.Usage) usageRecord {
	return usageRecord{u.Wall.Seconds(), u.User.Seconds(), u.System.Seconds(), u.MaxRSS}
}

// A usedRecord is what accounting tells (RM-53); what is not known is null.
type usedRecord struct {
	CPU  float64 `json:"cput"`
	Mem  *int64  `json:"mem"`
	VMem *int64  `json:"vmem"`
	Wall float64 `json:"walltime"`
}

// An allRecord is that of the job.
type allRecord struct {
	usedRecord
	Sampled bool                   `json:"sampled"`    // on all hosts
	Reason  string                 `json:"reason"`     // of the end, in a word
	Metric  string                 `json:"mem_metric"` // what is counted as memory
	Limits  map[limit.Resource]any `json:"limits"`     // bytes, seconds, counts
	Every   float64                `json:"interval"`   // at most, between two samples, in seconds
}

func usedOf(u job.Used) usedRecord {
	r := usedRecord{CPU: thousandths(u.CPU), Wall: thousandths(u.Wall)}
	if u.Mem > 0 {
		r.Mem = &u.Mem
	}
	if u.Sampled {
		r.VMem = &u.VMem
	}
	return r
}

// thousandths are seconds with three decimals.
func thousandths(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// used adds what a job has used to its record.
func (r *record) used(result job.Result, bounds limit.Bounds) {
	if len(result.Used.Nodes) == 0 {
		return
	}
	for i, e := range result.Exits {
		u := usedOf(result.Used.Ranks[e.Rank])
		r.Exits[i].usedRecord = &u
	}
	for i := range result.Hosts {
		u := usedOf(result.Used.Nodes[i])
		r.Usage[i].usedRecord = &u
	}
	r.All = &allRecord{usedOf(result.Used.All), result.Used.All.Sampled, result.Reason, "rss", bounds.Figures(), interval(bounds)}
}

// interval is the longest time between two samples: who is limited is looked at more often.
func interval(bounds limit.Bounds) float64 {
	if bounds.Any(limit.Resource.Sampled) {
		return 1
	}
	return 5
}

// usageFile writes what the job used to a file of its own (--usage-file).
func (c *call) usageFile(result job.Result, err error) {
	name := c.line.Job.UsageFile
	if name == "" || err != nil {
		return
	}
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, show.Resources(result.Used.All))
		return err
	}
	if failed := writeFile(name, write); failed != nil {
		report(c.sys.Err, fmt.Errorf("--usage-file: %w", failed))
	}
}

// record has the plan of a run kept for its record, and returns who writes that when
// the run is over (--report).
func (c *call) record() (ended func(job.Result, error)) {
	file, began, planned := c.line.Job.ReportFile, time.Now(), c.env.Planned
	if file == "" {
		return func(job.Result, error) {}
	}
	var plan json.RawMessage
	c.env.Planned = func(snap job.Snapshot, p job.Plan) {
		if planned != nil {
			planned(snap, p)
		}
		var b bytes.Buffer
		if whatif.Write(&b, whatif.Planned(c.req, snap, p, c.warnings)) == nil {
			plan = b.Bytes()
		}
	}
	return func(result job.Result, err error) {
		r := newRecord(result, err, c.ours)
		r.used(result, c.req.Bounds)
		r.RM, r.Job, r.Began, r.Seconds, r.Plan = c.req.RM, c.req.Job, began, time.Since(began).Seconds(), plan
		write := func(w io.Writer) error {
			encoder := json.NewEncoder(w)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")
			return encoder.Encode(r)
		}
		if failed := writeFile(file, write); failed != nil {
			report(c.sys.Err, fmt.Errorf("--report: %w", failed)) // the run's own printer is closed by now
		}
	}
}

var pmiWords = map[job.PMIState]string{
	job.PMINever: "never", job.PMIOpen: "open", job.PMIFinalized: "finalized", job.PMIAborted: "aborted",
}

func newRecord(result job.Result, err error, ours int) record {
	r := record{Version: 1, Code: exitCode(result.Code, err, ours), Cause: result.Cause,
		Connects: []connectRecord{}, Starts: []startRecord{}, Exits: []exitRecord{}, Usage: []totalRecord{}}
	if err != nil {
		r.Cause = err.Error()
	}
	for _, c := range result.Connects {
		r.Connects = append(r.Connects, connectRecord{c.Node, c.Host, c.Took.Seconds(), c.Sent, c.Err})
	}
	for _, s := range result.Starts {
		r.Starts = append(r.Starts, startRecord{s.Rank, s.Node, s.PID, s.After.Seconds(), s.Err})
	}
	for _, e := range result.Exits {
		r.Exits = append(r.Exits, newExit(e))
	}
	for _, h := range result.Hosts {
		r.Usage = append(r.Usage, totalRecord{h.Node, h.Ranks, usageOf(h.Usage), nil})
	}
	return r
}
