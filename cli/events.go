package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"remshell/cli/record"
	"remshell/job"
	"remshell/simulate"
	"remshell/usererr"
	"remshell/userfile"
)

/*
An eventWriter writes the events of a run as they happen (--json, rule DIAG-7), one JSON object on each line:

	{"v":1,"time":"...","event":"start","rank":0,"node":"n1","pid":4711,"seconds":0.01}

	goroutine of Run, dialers --enqueue--> queue --writeLoop--> stdout or a file
	printers ----------------Output--------'    (Output blocks until written, which slows down the ranks' output)

The events of one rank are in order: start, output, exit. If the file cannot be written, the job goes on,
and the error is reported at its end.
*/
type eventWriter struct {
	w io.Writer

	mu      sync.Mutex // guards the next three
	queue   [][]byte
	closed  bool
	pending map[int]*pendingExit // exits by rank, delayed until the rank's output has ended; nil: no exit is delayed

	writing sync.Mutex // held while writing
	err     error      // the first error of a write, after which nothing is written; guarded by writing

	wake chan struct{}
	done chan struct{} // closed when the queue is closed and written
}

// A pendingExit is the exit event of a rank whose output has not ended yet, with the number of its streams (stdout and
// stderr) that have ended.
type pendingExit struct {
	exit         any // nil: not known yet
	endedStreams int
}

// eventVersion is the value of "v" in each event. It is increased by changes that may break programs which
// read the events.
const eventVersion = 1

// newEventWriter returns an eventWriter that writes to w. If output is true, it also writes the ranks'
// output as events.
func newEventWriter(w io.Writer, output bool) *eventWriter {
	j := &eventWriter{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if output {
		j.pending = make(map[int]*pendingExit)
	}
	go j.writeLoop()
	return j
}

// writeLoop writes queued events until the eventWriter is closed.
func (j *eventWriter) writeLoop() {
	defer close(j.done)
	for closed := false; !closed; {
		<-j.wake
		j.mu.Lock()
		closed = j.closed
		j.mu.Unlock()
		j.writeQueue()
	}
}

// enqueue adds an event to the queue. It does not block.
func (j *eventWriter) enqueue(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		return // impossible for the types below
	}
	j.mu.Lock()
	j.queue = append(j.queue, append(line, '\n'))
	j.mu.Unlock()
	j.wakeWriter()
}

func (j *eventWriter) wakeWriter() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// writeQueue writes all queued events.
func (j *eventWriter) writeQueue() {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	lines := j.queue
	j.queue = nil
	j.mu.Unlock()
	if len(lines) == 0 || j.err != nil {
		return
	}
	_, j.err = j.w.Write(bytes.Join(lines, nil))
}

// close writes the remaining events and returns the first write error. If limited is true, it waits for a slow reader
// for at most flushTimeout. Otherwise it waits without limit.
func (j *eventWriter) close(limited bool) error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.wakeWriter()
	var late <-chan time.Time
	if limited {
		late = time.After(flushTimeout)
	}
	select {
	case <-j.done:
		return j.err
	case <-late:
		return errors.New("no program reads from the pipe")
	}
}

// An eventHeader contains the fields at the start of each event.
type eventHeader struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
}

func newEventHeader(event string) eventHeader { return eventHeader{eventVersion, time.Now(), event} }

// Connected implements launch.Observer. It writes an event about a successful or failed connection to a host.
func (j *eventWriter) Connected(c job.ConnectResult) {
	j.enqueue(struct {
		eventHeader
		record.Connect
	}{newEventHeader("connect"), record.NewConnect(c)})
}

// Started writes an event about the start of a rank.
func (j *eventWriter) Started(s job.RankStart) {
	j.enqueue(struct {
		eventHeader
		record.Start
	}{newEventHeader("start"), record.NewStart(s)})
}

// Output writes data of a rank's stream and waits until it is written. Empty data means the end of the
// stream.
func (j *eventWriter) Output(rank int, stream string, data []byte) {
	if j.pending == nil {
		return
	}
	if len(data) == 0 {
		j.noteRankEnd(rank, func(e *pendingExit) { e.endedStreams++ })
		return
	}
	event := struct {
		eventHeader
		Rank   int    `json:"rank"`
		Stream string `json:"stream"`
		Text   string `json:"text,omitempty"`
		Base64 []byte `json:"base64,omitempty"` // data that is not UTF-8
	}{eventHeader: newEventHeader("output"), Rank: rank, Stream: stream}
	if utf8.Valid(data) {
		event.Text = string(data)
	} else {
		event.Base64 = data
	}
	j.enqueue(event)
	j.writeQueue()
}

// Exited writes an event about the end of a rank. If the output of ranks is written as events, too, the exit event
// comes after the end of the rank's output.
func (j *eventWriter) Exited(node string, e job.Exit) {
	event := struct {
		eventHeader
		Node string `json:"node"`
		record.Exit
	}{newEventHeader("exit"), node, record.NewExit(&e)}
	if j.pending == nil {
		j.enqueue(event)
		return
	}
	j.noteRankEnd(e.Rank, func(x *pendingExit) { x.exit = event })
}

// AttemptEvent writes an event about an attempt of the job (one run of all ranks) or about a checkpoint
// (survive.md SV-12).
func (j *eventWriter) AttemptEvent(event job.AttemptEvent) {
	j.enqueue(struct {
		eventHeader
		State   string      `json:"state,omitempty"`
		Attempt int         `json:"attempt,omitempty"`
		Reason  job.EndKind `json:"reason,omitempty"`
		Lost    []string    `json:"lost,omitempty"`
		Nodes   []string    `json:"nodes,omitempty"`
		Size    int         `json:"size,omitempty"`
		Seconds float64     `json:"seconds,omitempty"`
		Why     string      `json:"why,omitempty"`
	}{newEventHeader(event.Event), event.State, event.Attempt, event.Reason, event.Lost, event.Nodes, event.Size, event.Seconds, event.GiveUpReason})
}

// LeftoverFound writes an event about shared memory or semaphores that a rank has left behind. If they could not be
// freed, the event says why.
func (j *eventWriter) LeftoverFound(r job.Leftover) {
	j.enqueue(struct {
		eventHeader
		record.Leftover
	}{newEventHeader("cleaned"), record.NewLeftover(r)})
}

// Controlled writes an event about a request, such as --suspend, that a user has sent to the job (survive.md SV-26).
func (j *eventWriter) Controlled(h job.ControlEvent) {
	j.enqueue(struct {
		eventHeader
		Node  string         `json:"node"`
		Verb  job.Verb       `json:"verb"`
		User  string         `json:"user"`
		State job.ReplyState `json:"state"`
	}{newEventHeader("ask"), h.Node, h.Verb, h.User, h.State})
}

// StacksRead writes an event about the stacks of all ranks, which were read because the job makes no progress or has
// reached its time limit.
func (j *eventWriter) StacksRead(r job.StackRecord) {
	j.enqueue(struct {
		eventHeader
		record.Stacks
	}{newEventHeader("stacks"), record.NewStacks(r).Stacks})
}

// noteRankEnd calls note, which records one part of a rank's end: its exit, or the end of its stdout or
// stderr. When all three parts are known, it writes the exit event.
func (j *eventWriter) noteRankEnd(rank int, note func(*pendingExit)) {
	j.mu.Lock()
	e := j.pending[rank]
	if e == nil {
		e = new(pendingExit)
		j.pending[rank] = e
	}
	note(e)
	over := e.endedStreams >= 2 && e.exit != nil
	if over {
		delete(j.pending, rank)
	}
	j.mu.Unlock()
	if over {
		j.enqueue(e.exit)
	}
}

// writeSummary writes the event that contains the result of the run.
func (j *eventWriter) writeSummary(id job.ID, r record.Run) {
	j.enqueue(struct {
		eventHeader
		Job     job.ID             `json:"job"`
		Seconds float64            `json:"seconds"`
		Code    int                `json:"code"`
		Cause   string             `json:"cause,omitempty"`
		Usage   []record.NodeTotal `json:"usage"`
	}{newEventHeader("summary"), id, r.Seconds, *r.Code, r.Cause, r.Usage})
}

// writePlan writes where the ranks are placed, in the form of --dry-run --json.
func (j *eventWriter) writePlan(id job.ID, plan json.RawMessage) {
	j.enqueue(struct {
		eventHeader
		Job  job.ID          `json:"job"`
		Plan json.RawMessage `json:"plan"`
	}{newEventHeader("plan"), id, plan})
}

// startEvents starts writing the events of the run if --json is given. If events go to standard output, the output of
// ranks goes to standard error.
//
// The caller must call ended with the result of the run. ended prints a message if events could not be written. It
// returns a reportedError if they were lost on standard output, unless the reader has closed it. Otherwise it returns nil.
func (c *invocation) startEvents() (ended func(job.Result, error) error, err error) {
	name, w := c.line.Job.JSON, c.sys.Out
	if name == "" {
		return func(job.Result, error) error { return nil }, nil
	}
	var file *os.File
	if name != "-" {
		if file, err = userfile.Create(name); err != nil {
			return nil, &usererr.Error{Text: "--json: " + err.Error(), Remedy: usererr.Hint(err)}
		}
		w = file
	}
	j := newEventWriter(w, c.line.Job.Outputs().JSON)
	began := time.Now()
	c.onPlan(func(snap job.Snapshot, p job.Plan) {
		var b bytes.Buffer
		if simulate.Write(&b, simulate.OutcomeOf(c.req, snap, p, c.warnings)) == nil {
			j.writePlan(c.req.Job, b.Bytes())
		}
	})
	c.env.Observer = j
	return func(result job.Result, err error) error {
		r := record.NewRun(result, err, exitCode(result.Code, err, c.ownErrorCode))
		r.Seconds = time.Since(began).Seconds()
		j.writeSummary(c.req.Job, r)
		failed := j.close(*r.Code > 128)
		if file != nil {
			failed = errors.Join(failed, file.Close())
		}
		if failed == nil {
			return nil
		}
		c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(fmt.Errorf("--json: %w", failed)) // the run's own printer is closed by now
		if file != nil || isReaderGone(failed) {
			return nil // the run itself succeeded or failed as it did
		}
		return reportedError{failed}
	}, nil
}
