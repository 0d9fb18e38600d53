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
	"remshell/fault"
	"remshell/job"
	"remshell/userfile"
	"remshell/whatif"
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
type journal struct {
	w io.Writer

	mu      sync.Mutex // guards the next three
	queue   [][]byte
	closed  bool
	pending map[int]*ending // ranks whose exit waits for the end of their output; nil: none does

	writing sync.Mutex // held by who writes
	err     error      // why nothing can be written any more; guarded by writing

	filled chan struct{}
	done   chan struct{} // closed when all is written
}

// An ending is the exit of a rank and how many of its output streams have ended.
type ending struct {
	exit  any // nil: not known yet
	ended int
}

// journalVersion changes when a reader of the events has to.
const journalVersion = 1

func newJournal(w io.Writer, output bool) *journal {
	j := &journal{w: w, filled: make(chan struct{}, 1), done: make(chan struct{})}
	if output {
		j.pending = make(map[int]*ending)
	}
	go j.run()
	return j
}

// run writes what was put, until the journal is closed.
func (j *journal) run() {
	defer close(j.done)
	for closed := false; !closed; {
		<-j.filled
		j.mu.Lock()
		closed = j.closed
		j.mu.Unlock()
		j.write()
	}
}

// put takes an event without waiting.
func (j *journal) put(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		return // of none of the types below
	}
	j.mu.Lock()
	j.queue = append(j.queue, append(line, '\n'))
	j.mu.Unlock()
	j.notify()
}

func (j *journal) notify() {
	select {
	case j.filled <- struct{}{}:
	default:
	}
}

// write writes what is in the queue.
func (j *journal) write() {
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
func (j *journal) close(hurry bool) error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.notify()
	var late <-chan time.Time
	if hurry {
		late = time.After(lastLines)
	}
	select {
	case <-j.done:
		return j.err
	case <-late:
		return errors.New("nobody reads it")
	}
}

// A stamp is what each event begins with.
type stamp struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
}

func stamped(event string) stamp { return stamp{journalVersion, time.Now(), event} }

// Connected is that of launch.Watcher, and so are the others.
func (j *journal) Connected(c job.Connect) {
	j.put(struct {
		stamp
		record.Connect
	}{stamped("connect"), record.NewConnect(c)})
}

func (j *journal) Started(s job.Start) {
	j.put(struct {
		stamp
		record.Start
	}{stamped("start"), record.NewStart(s)})
}

// Output waits until it is written; no data is the end of the stream.
func (j *journal) Output(rank int, stream string, data []byte) {
	if j.pending == nil {
		return
	}
	if len(data) == 0 {
		j.settle(rank, func(e *ending) { e.ended++ })
		return
	}
	event := struct {
		stamp
		Rank   int    `json:"rank"`
		Stream string `json:"stream"`
		Text   string `json:"text,omitempty"`
		Base64 []byte `json:"base64,omitempty"` // what is no text in UTF-8
	}{stamp: stamped("output"), Rank: rank, Stream: stream}
	if utf8.Valid(data) {
		event.Text = string(data)
	} else {
		event.Base64 = data
	}
	j.put(event)
	j.write()
}

func (j *journal) Exited(node string, e job.Exit) {
	event := struct {
		stamp
		Node string `json:"node"`
		record.Exit
	}{stamped("exit"), node, record.NewExit(&e)}
	if j.pending == nil {
		j.put(event)
		return
	}
	j.settle(e.Rank, func(x *ending) { x.exit = event })
}

// Again tells of the attempts of a job and its checkpoints (survive.md SV-12).
func (j *journal) Again(news job.Again) {
	j.put(struct {
		stamp
		State   string      `json:"state,omitempty"`
		Attempt int         `json:"attempt,omitempty"`
		Reason  job.EndKind `json:"reason,omitempty"`
		Lost    []string    `json:"lost,omitempty"`
		Nodes   []string    `json:"nodes,omitempty"`
		Size    int         `json:"size,omitempty"`
		Seconds float64     `json:"seconds,omitempty"`
		Why     string      `json:"why,omitempty"`
	}{stamped(news.Event), news.State, news.Attempt, news.Reason, news.Lost, news.Nodes, news.Size, news.Seconds, news.Why})
}

// Cleaned tells of shared memory that a rank has left.
func (j *journal) Cleaned(r job.Remnant) {
	j.put(struct {
		stamp
		record.Remnant
	}{stamped("cleaned"), record.NewRemnant(r)})
}

// Asked tells of a word with the job from elsewhere (survive.md SV-26).
func (j *journal) Asked(h job.Heard) {
	j.put(struct {
		stamp
		Node  string          `json:"node"`
		Verb  job.Verb        `json:"verb"`
		User  string          `json:"user"`
		State job.AnswerState `json:"state"`
	}{stamped("ask"), h.Node, h.Verb, h.User, h.State})
}

// settle notes something of the end of a rank, and tells its exit when both of its streams have
// ended.
func (j *journal) settle(rank int, note func(*ending)) {
	j.mu.Lock()
	e := j.pending[rank]
	if e == nil {
		e = new(ending)
		j.pending[rank] = e
	}
	note(e)
	over := e.ended >= 2 && e.exit != nil
	if over {
		delete(j.pending, rank)
	}
	j.mu.Unlock()
	if over {
		j.put(e.exit)
	}
}

// summary tells what came of the run.
func (j *journal) summary(id job.ID, r record.Run) {
	j.put(struct {
		stamp
		Job     job.ID         `json:"job"`
		Seconds float64        `json:"seconds"`
		Code    int            `json:"code"`
		Cause   string         `json:"cause,omitempty"`
		Usage   []record.Total `json:"usage"`
	}{stamped("summary"), id, r.Seconds, *r.Code, r.Cause, r.Usage})
}

// plan tells where ranks go, as --dry-run --json does.
func (j *journal) plan(id job.ID, plan json.RawMessage) {
	j.put(struct {
		stamp
		Job  job.ID          `json:"job"`
		Plan json.RawMessage `json:"plan"`
	}{stamped("plan"), id, plan})
}

// journal has a run told by a journal, and returns who ends that when the run is over (--json), with an error, which was reported, if
// something of standard output is lost. On standard output the ranks' own goes out of its way: see printers.
func (c *call) journal() (ended func(job.Result, error) error, err error) {
	name, w := c.line.Job.JSON, c.sys.Out
	if name == "" {
		return func(job.Result, error) error { return nil }, nil
	}
	var file *os.File
	if name != "-" {
		if file, err = userfile.Create(name); err != nil {
			return nil, &fault.Error{Text: "--json: " + err.Error(), Remedy: fault.Hint(err)}
		}
		w = file
	}
	j := newJournal(w, c.line.Job.Outputs().JSON)
	began := time.Now()
	c.whenPlanned(func(snap job.Snapshot, p job.Plan) {
		var b bytes.Buffer
		if whatif.Write(&b, whatif.Planned(c.req, snap, p, c.warnings)) == nil {
			j.plan(c.req.Job, b.Bytes())
		}
	})
	c.env.Watch = j
	return func(result job.Result, err error) error {
		r := record.New(result, err, exitCode(result.Code, err, c.ours))
		r.Seconds = time.Since(began).Seconds()
		j.summary(c.req.Job, r)
		failed := j.close(*r.Code > 128)
		if file != nil {
			failed = errors.Join(failed, file.Close())
		}
		if failed == nil {
			return nil
		}
		c.sys.screen(c.sys.Err, c.line.Job).report(fmt.Errorf("--json: %w", failed)) // the run's own printer is closed by now
		if file != nil || readerGone(failed) {
			return nil // the run is what was wanted
		}
		return told{failed}
	}, nil
}
