/*
Package saved defines the file format of a saved job, which contains the request and the attempts so far as JSON
(--save-job, --resume; survive.md 6).

	job.Request, attempts --New, WithRunning, WithEnded--> Job --Encode--> FILE
	FILE --Decode--> Job --Resume--> the request of the next mpiexec, with the attempts so far

The package does no I/O. Package cli opens, locks and writes FILE.
*/
package saved

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/launch/restart"
	"remshell/usererr"
)

// Version is the version of the file format.
const Version = 2

// MaxSize is the largest size of a saved job in bytes. A saved job with the hosts of a 10,000-node cluster is far
// smaller.
const MaxSize = 128 << 20

// A State says whether a saved job has not started, is running or has ended.
type State string

// These are the states of a saved job.
const (
	Stopped State = "stopped" // it had not started: it was waiting, or hosts were missing
	Running State = "running" // it runs, or its mpiexec was killed while it ran
	Ended   State = "ended"
)

// A Job is the content of the file of a saved job.
type Job struct {
	Version          int          `json:"version"`
	ID               job.ID       `json:"job"`
	State            State        `json:"state"`
	Attempt          int          `json:"attempt"`       // number of the running or last attempt; -1: there was none
	RestartsLeft     string       `json:"restarts_left"` // a number, or "unlimited"; for people
	Reason           job.EndKind  `json:"reason"`        // why the attempt before it ended; empty: it is the first
	Lost             []string     `json:"lost"`          // nodes of the attempt before it
	Host             string       `json:"host"`          // host of its mpiexec
	PID              int          `json:"pid"`           // process ID of that mpiexec
	User             string       `json:"user"`
	Dir              string       `json:"dir"`               // its working directory
	Argv             []string     `json:"argv"`              // arguments of mpiexec
	TransportOptions []string     `json:"transport_options"` // options about how hosts are reached, from command line and variables
	FeatureOptions   []string     `json:"feature_options"`   // options of features that the job keeps
	Ended            time.Time    `json:"ended"`
	Exit             int          `json:"exit"`
	Nodes            []string     `json:"nodes"`   // of the running attempt
	Size             int          `json:"size"`    // number of its ranks
	Began            time.Time    `json:"began"`   // when it began
	History          []Attempt    `json:"history"` // attempts that have ended
	Request          *job.Request `json:"request"`
	unknownFields    map[string]json.RawMessage
}

// An Attempt describes an ended attempt: one run of all ranks of the job (rule SV-12).
type Attempt struct {
	Number       int         `json:"attempt"` // same fields as job.Attempt
	Began        time.Time   `json:"began"`
	Ended        time.Time   `json:"ended"`
	Kind         job.EndKind `json:"kind"`
	Reason       string      `json:"reason"`
	Cause        string      `json:"cause"`
	Nodes        []string    `json:"nodes"`
	Size         int         `json:"size"`
	Lost         []string    `json:"lost"`
	Failed       []string    `json:"failed"`
	StandbyNodes []string    `json:"standby_nodes"`
	Exit         int         `json:"exit"`
	LeftNodes    []string    `json:"left_nodes"`
	NextNodes    []string    `json:"next_nodes"`
}

// New returns a saved job that has not started. past contains the attempts (runs of all ranks) of earlier mpiexec
// processes.
func New(req job.Request, past []job.Attempt) Job {
	j := Job{Version: Version, ID: req.Job, State: Stopped, Request: &req, User: req.User.Name}
	return j.withHistory(past, -1)
}

// WithUnknownFields returns the job with the unknown fields of older, an earlier version of the job. This version of the
// program does not know these fields, and keeps them for a newer version.
func (j Job) WithUnknownFields(older Job) Job {
	j.unknownFields = older.unknownFields
	return j
}

// withHistory returns the job with the ended attempts that past contains. running is the number of the running
// attempt, or -1.
func (j Job) withHistory(past []job.Attempt, running int) Job {
	j.History = []Attempt{}
	for _, a := range past {
		j.History = append(j.History, Attempt(a))
	}
	j.Attempt = max(running, len(past)-1)
	j.RestartsLeft = restart.RestartsLeft(j.Request.Restart, past[:max(0, min(j.Attempt, len(past)))])
	if j.Reason, j.Lost = "", nil; j.Attempt > 0 {
		j.Reason, j.Lost = past[j.Attempt-1].Kind, past[j.Attempt-1].Lost
	}
	return j
}

// WithRunning returns the saved job with an attempt that is running. now is this attempt, and past contains the
// earlier ones.
func (j Job) WithRunning(past []job.Attempt, now job.Attempt) Job {
	j = j.withHistory(past, now.Number)
	j.State, j.Nodes, j.Size, j.Began = Running, now.Nodes, now.Size, now.Began
	return j
}

// WithEnded returns the job in the state after mpiexec has exited with the given code. past contains all attempts. If
// there was no attempt, the state remains Stopped.
func (j Job) WithEnded(past []job.Attempt, code int, endTime time.Time) Job {
	started := j.State == Running || len(past) > len(j.History)
	j = j.withHistory(past, -1)
	if j.Nodes, j.Size, j.Began = nil, 0, (time.Time{}); started {
		j.State = Ended
	}
	j.Exit, j.Ended = code, endTime
	return j
}

// Encode returns the content of the file.
func (j Job) Encode() []byte {
	var b, indented bytes.Buffer
	appendValue(&b, reflect.ValueOf(j))
	b.Truncate(b.Len() - 1)
	for _, name := range slices.Sorted(maps.Keys(j.unknownFields)) {
		b.WriteByte(',')
		appendText(&b, name)
		b.WriteByte(':')
		b.Write(j.unknownFields[name])
	}
	b.WriteByte('}')
	json.Indent(&indented, b.Bytes(), "", " ")
	indented.WriteByte('\n')
	return indented.Bytes()
}

// Decode decodes the content of the file. It keeps fields that this version of the program does not know,
// and Encode writes them again.
func Decode(file string, content []byte) (Job, error) {
	j, err := decodeJob(content)
	if err == nil {
		err = j.check()
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(content[:min(int(syntax.Offset), len(content))], []byte("\n"))
		return Job{}, &usererr.Error{Text: fmt.Sprintf("saved job %s:%d: %v", file, line, err), Remedy: "give a file that --save-job wrote and that was not edited"}
	case usererr.Hint(err) != "":
		return Job{}, &usererr.Error{Text: fmt.Sprintf("saved job %s: %v", file, err), Remedy: usererr.Hint(err)}
	case err != nil:
		return Job{}, &usererr.Error{Text: fmt.Sprintf("saved job %s: %v", file, err), Remedy: "give a file that --save-job wrote and that was not edited"}
	}
	return j, nil
}

func decodeJob(content []byte) (j Job, err error) {
	if err := json.Unmarshal(content, &j.unknownFields); err != nil {
		return j, err
	}
	var version int
	if json.Unmarshal(j.unknownFields["version"], &version) != nil || version != Version {
		remedy := "resume the job with the mpiexec that saved it, or start the job again"
		if version > 0 && version < Version {
			remedy = "an earlier version of mpiexec saved the job; resume it with that version, or start the job again"
		}
		return j, &usererr.Error{Text: fmt.Sprintf("version %s is not supported; this mpiexec reads version %d", cmp.Or(string(j.unknownFields["version"]), "none"), Version),
			Remedy: remedy}
	}
	into := reflect.ValueOf(&j).Elem()
	for i := range into.NumField() {
		field := into.Type().Field(i)
		raw, found := j.unknownFields[fieldKey(field)]
		if !found || !field.IsExported() {
			continue
		}
		var decoded any
		values := json.NewDecoder(bytes.NewReader(raw))
		values.UseNumber()
		if err := values.Decode(&decoded); err != nil {
			return j, err
		}
		if err := readValue(into.Field(i), decoded, fieldKey(field)); err != nil {
			return j, err
		}
		delete(j.unknownFields, fieldKey(field))
	}
	return j, nil
}

// maxCount is the largest number of ranks of an app context, and the largest number of attempts, that a saved
// job may have.
const maxCount = 1 << 24

// check returns an error if the job breaks a rule that later code relies on.
func (j Job) check() error {
	isForbidden := func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", c)
	}
	switch {
	case j.ID == "" || len(j.ID) > 40 || strings.ContainsFunc(string(j.ID), isForbidden):
		return errors.New("job: the value is not a job ID of at most 40 letters, digits, _, . and -")
	case !slices.Contains([]State{Stopped, Running, Ended}, j.State):
		return errors.New("state: the value must be stopped, running or ended")
	case j.Request == nil || j.Request.Job != j.ID:
		return errors.New("request: its job ID differs from the ID of the saved job")
	case j.Attempt < -1 || j.Attempt > maxCount || j.Attempt+1 < len(j.History) || j.Attempt > len(j.History):
		return errors.New("attempt: the number does not fit the number of attempts in history")
	case j.Size < 0 || j.Size > maxCount:
		return errors.New("size: the value must be a number of ranks")
	}
	return checkRequest(*j.Request)
}

func checkRequest(req job.Request) error {
	if len(req.Apps) == 0 {
		return errors.New("request.Apps: missing")
	}
	for i, app := range req.Apps {
		if len(app.Argv) == 0 || app.N < 0 || app.N > maxCount || slices.ContainsFunc(app.Soft, func(n int) bool { return n < 1 || n > maxCount }) {
			return fmt.Errorf("request.Apps[%d]: the program or the number of ranks is missing", i)
		}
	}
	names := make(map[string]bool, len(req.Nodes))
	for i, n := range req.Nodes {
		if n.Name == "" || names[n.Name] {
			return fmt.Errorf("request.Nodes[%d]: the name is missing or not unique", i)
		}
		names[n.Name] = true
	}
	isNoNode := func(node int) bool { return node < 0 || node >= len(req.Nodes) }
	switch {
	case slices.ContainsFunc(req.HostEntries, isNoNode):
		return errors.New("request.HostEntries: a node does not exist in request.Nodes")
	case slices.ContainsFunc(req.FixedPlacements, func(s job.FixedPlacement) bool { return isNoNode(s.Node) }):
		return errors.New("request.FixedPlacements: a node does not exist in request.Nodes")
	case req.Restart.PastAttempts < 0 || req.Restart.MaxRestarts < 0:
		return errors.New("request.Restart: PastAttempts or MaxRestarts is negative")
	}
	return nil
}

// A Resumption contains the data from which mpiexec resumes a job.
type Resumption struct {
	Request    job.Request
	Past       []job.Attempt
	MaybeAlive []string // nodes on which ranks of the last attempt may still run
}

// Resume returns the data for resuming the job now. If an attempt was still running when the file was written, Resume
// treats it as lost.
func (j Job) Resume(now time.Time) Resumption {
	s := Resumption{Request: *j.Request}
	for _, a := range j.History {
		s.Past = append(s.Past, job.Attempt(a))
	}
	if j.State == Running && j.Attempt == len(j.History) {
		s.Past = append(s.Past, job.Attempt{Number: j.Attempt, Began: j.Began, Ended: now, Reason: "internal", Cause: "mpiexec ended while the job was running",
			Nodes: j.Nodes, Size: j.Size, Exit: job.ExitInternal})
		s.MaybeAlive = j.Nodes
	} else if len(s.Past) > 0 {
		s.MaybeAlive = s.Past[len(s.Past)-1].Lost
	}
	r := &s.Request.Restart
	if r.MaxRestarts != job.UnlimitedRestarts {
		r.MaxRestarts = max(0, r.MaxRestarts-restart.RestartsUsed(*r, s.Past[:max(0, j.Attempt)]))
	}
	if len(s.Past) > 0 {
		last := &s.Past[len(s.Past)-1]
		last.Kind, last.NextNodes = job.EndByResume, nil // the nodes planned for the next attempt are no longer claimed
	}
	r.PastAttempts, r.Saved = len(s.Past), true
	return s
}

// CheckResumable returns an error if repeat is false and the job has already succeeded, with exit code 0.
func (j Job) CheckResumable(repeat bool) error {
	if j.State == Ended && j.Exit == 0 && !repeat {
		return &usererr.Error{Text: "the job has already succeeded (exit code 0)", Remedy: "to start the job again, add --again"}
	}
	return nil
}
