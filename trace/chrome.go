package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

/*
Chrome writes a trace as one JSON object in the Trace Event Format, for Perfetto (ui.perfetto.dev) and
chrome://tracing:

	{"displayTimeUnit":"ms","otherData":{...},"traceEvents":[
	{"ph":"M","name":"process_name","pid":1,"args":{"name":"mpiexec"}},      mpiexec and each host are processes there,
	{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"mpiexec"}},   and each row is a thread
	{"ph":"X","name":"connect","cat":"step","pid":2,"tid":2,"ts":0.5,"dur":1200,"args":{"error":"..."}},
	...
	]}

ts and dur are in microseconds. ts is the time since the beginning of the run. In args, "error" says why the step
failed, and "note" is the note of the step. "open" is true if the step had not ended. escape must escape characters
that could control a terminal (format.EscapeJSON).
*/
func Chrome(w io.Writer, t Trace, escape func([]byte) []byte) error {
	out := bufio.NewWriter(w)
	head, err := json.Marshal(metadata(t))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `{"displayTimeUnit":"ms","otherData":%s,"traceEvents":[`, escape(head))
	c := chromeWriter{out: out, clean: escape}
	for i, o := range groupByHost(t.Spans) {
		c.writeHost(i, o)
	}
	if c.err != nil {
		return c.err
	}
	fmt.Fprint(out, "\n]}\n")
	return out.Flush()
}

// metadata returns the "otherData" of the JSON object: facts about the whole trace.
func metadata(t Trace) map[string]string {
	data := map[string]string{"begun": t.Begun.UTC().Format(time.RFC3339Nano), "seconds": fmt.Sprintf("%.6f", t.Took.Seconds())}
	if t.Title != "" {
		data["command"] = t.Title
	}
	if len(t.Remarks) > 0 {
		data["notes"] = strings.Join(t.Remarks, "; ")
	}
	return data
}

// A chromeWriter writes events, one on each line.
type chromeWriter struct {
	out        *bufio.Writer
	clean      func([]byte) []byte
	err        error
	wroteAny   bool
	lastThread int // number of the last thread
}

// A chromeEvent is an event of the Trace Event Format. Its args must be values that JSON can encode.
type chromeEvent struct {
	Phase    string         `json:"ph"`
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	At       *micros        `json:"ts,omitempty"`
	Took     *micros        `json:"dur,omitempty"`
	Color    string         `json:"cname,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// micros is a duration that is encoded as a number of microseconds with three decimals.
type micros time.Duration

func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", int64(m)/1000, int64(m)%1000), nil
}

// writeHost writes the events of mpiexec or of one host. In the trace, each host is a process, and its PID is the
// number of its first thread. Trace viewers regard the thread with that number as the main thread, and sort the
// processes by order.
func (c *chromeWriter) writeHost(order int, o hostTracks) {
	process := c.lastThread + 1
	name := rowTitle(Row{Host: o.name})
	c.write(chromeEvent{Phase: "M", Name: "process_name", Process: process, Thread: process, Args: map[string]any{"name": name}})
	c.write(chromeEvent{Phase: "M", Name: "process_sort_index", Process: process, Thread: process, Args: map[string]any{"sort_index": order}})
	for i, l := range o.tracks {
		c.lastThread++
		name := rowTitle(l.Row)
		if l.overlap > 0 {
			name += fmt.Sprintf(" (%d)", l.overlap+1)
		}
		c.write(chromeEvent{Phase: "M", Name: "thread_name", Process: process, Thread: c.lastThread, Args: map[string]any{"name": name}})
		c.write(chromeEvent{Phase: "M", Name: "thread_sort_index", Process: process, Thread: c.lastThread, Args: map[string]any{"sort_index": i}})
		for _, s := range l.spans {
			c.write(stepEvent(s, process, c.lastThread))
		}
	}
}

// rowTitle returns the title of a row as trace viewers show it.
func rowTitle(row Row) string {
	switch {
	case row.Part != "":
		return row.Part
	case row.Host != "":
		return row.Host
	}
	return "mpiexec"
}

// stepEvent returns the Chrome event for a step. process and thread are the numbers under which a trace viewer
// shows the step.
func stepEvent(s Span, process, thread int) chromeEvent {
	at, took := micros(s.Began), micros(s.Took())
	e := chromeEvent{Phase: "X", Name: s.Step, Category: "step", Process: process, Thread: thread, At: &at, Took: &took, Args: map[string]any{}}
	if s.Why != "" {
		e.Color, e.Args["error"] = "terrible", s.Why
	}
	if s.Note != "" {
		e.Args["note"] = s.Note
	}
	if s.Open {
		e.Args["open"] = true
	}
	return e
}

// write writes one event. It keeps the first error in c.err.
func (c *chromeWriter) write(e chromeEvent) {
	text, err := json.Marshal(e)
	if err != nil && c.err == nil {
		c.err = err
	}
	if c.wroteAny {
		c.out.WriteByte(',')
	}
	c.wroteAny = true
	c.out.WriteByte('\n')
	c.out.Write(c.clean(text)) // Flush returns an error of this write
}
