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
A journal writes what happens in a run as it happens (--json, DIAG-7): one JSON object per
line.

	{"v":1,"time":"...","event":"start","rank":0,"node":"n1","pid":4711,"seconds":0.01}

	owner of the job, dialers --put--> queue --writer--> stdout or a file
	printers ------------------tell------'   (they wait: credit bounds the ranks' output)

Events of one rank come in their order: start, output, exit. A journal that cannot be written
is told at the end, and ends no job.
*/
type eventWriter struct {
	w io.Writer

	mu      sync.Mutex // guards the next three
	queue   [][]byte
	closed  bool
	pending map[int]*pendingExit // ranks whose exit waits for the end of their output; nil: none does

	writing sync.Mutex // held by who writes
	err     error      // why nothing can be written any more; guarded by writing

	wake chan struct{}
	done chan struct{} // closed when all is written
}

// A pendingExit is the exit of a rank and how many of its output streams have ended.
type pendingExit struct {
	exit         any // nil: not known yet
	endedStreams int
}

// eventVersion changes when a reader of the events has to.
const eventVersion = 1

func newEventWriter(w io.Writer, output bool) *eventWriter {
	j := &eventWriter{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if output {
		j.pending = make(map[int]*pendingExit)
	}
	go j.writeLoop()
	return j
}

// writeLoop writes what was put, until the journal is closed.
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

// enqueue takes an event without waiting.
func (j *eventWriter) enqueue(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		return // of none of the types below
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

// writeQueue writes what is in the queue.
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

// close writes the rest. Who reads it may take his time, unless we are in a hurry.
func (j *eventWriter) close(hurry bool) error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.wakeWriter()
	var late <-chan time.Time
	if hurry {
		late = time.After(flushTimeout)
	}
	select {
	case <-j.done:
		return j.err
	case <-late:
		return errors.New("nobody reads it")
	}
}

// An eventHeader is what each event begins with.
type eventHeader struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
}

func newEventHeader(event string) eventHeader { return eventHeader{eventVersion, time.Now(), event} }

// Connected is that of launch.Observer, and so are the others.
func (j *eventWriter) Connected(c job.ConnectResult) {
	j.enqueue(struct {
		eventHeader
		record.Connect
	}{newEventHeader("connect"), record.NewConnect(c)})
}

func (j *eventWriter) Started(s job.RankStart) {
	j.enqueue(struct {
		eventHeader
		record.Start
	}{newEventHeader("start"), record.NewStart(s)})
}

// Output waits until it is written; no data is the end of the stream.
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
		Base64 []byte `json:"base64,omitempty"` // what is no text in UTF-8
	}{eventHeader: newEventHeader("output"), Rank: rank, Stream: stream}
	if utf8.Valid(data) {
		event.Text = string(data)
	} else {
		event.Base64 = data
	}
	j.enqueue(event)
	j.writeQueue()
}

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

// AttemptEvent tells of the attempts of a job and its checkpoints (survive.md SV-12).
func (j *eventWriter) AttemptEvent(news job.AttemptEvent) {
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
	}{newEventHeader(news.Event), news.State, news.Attempt, news.Reason, news.Lost, news.Nodes, news.Size, news.Seconds, news.GiveUpReason})
}

// LeftoverFreed tells of shared memory that a rank has left.
func (j *eventWriter) LeftoverFreed(r job.Leftover) {
	j.enqueue(struct {
		eventHeader
		record.Leftover
	}{newEventHeader("cleaned"), record.NewLeftover(r)})
}

// Controlled tells of a word with the job from elsewhere (survive.md SV-26).
func (j *eventWriter) Controlled(h job.ControlEvent) {
	j.enqueue(struct {
		eventHeader
		Node  string         `json:"node"`
		Verb  job.Verb       `json:"verb"`
		User  string         `json:"user"`
		State job.ReplyState `json:"state"`
	}{newEventHeader("ask"), h.Node, h.Verb, h.User, h.State})
}

// noteRankEnd notes something of the end of a rank, and tells its exit when both of its streams have
// ended.
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

// putSummary tells what came of the run.
func (j *eventWriter) putSummary(id job.ID, r record.Run) {
	j.enqueue(struct {
		eventHeader
		Job     job.ID             `json:"job"`
		Seconds float64            `json:"seconds"`
		Code    int                `json:"code"`
		Cause   string             `json:"cause,omitempty"`
		Usage   []record.NodeTotal `json:"usage"`
	}{newEventHeader("summary"), id, r.Seconds, *r.Code, r.Cause, r.Usage})
}

// putPlan tells where ranks go, as --dry-run --json does.
func (j *eventWriter) putPlan(id job.ID, plan json.RawMessage) {
	j.enqueue(struct {
		eventHeader
		Job  job.ID          `json:"job"`
		Plan json.RawMessage `json:"plan"`
	}{newEventHeader("plan"), id, plan})
}

// startEvents has a run told by a journal, and returns who ends that when the run is over (--json), with an error, which was reported, if
// something of standard output is lost. On standard output the ranks' own goes out of its way: see printers.
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
			j.putPlan(c.req.Job, b.Bytes())
		}
	})
	c.env.Observer = j
	return func(result job.Result, err error) error {
		r := record.NewRun(result, err, exitCode(result.Code, err, c.ownErrorCode))
		r.Seconds = time.Since(began).Seconds()
		j.putSummary(c.req.Job, r)
		failed := j.close(*r.Code > 128)
		if file != nil {
			failed = errors.Join(failed, file.Close())
		}
		if failed == nil {
			return nil
		}
		c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(fmt.Errorf("--json: %w", failed)) // the run's own printer is closed by now
		if file != nil || isReaderGone(failed) {
			return nil // the run is what was wanted
		}
		return reportedError{failed}
	}, nil
}
