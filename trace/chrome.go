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
Chrome writes a trace in the Trace Event Format, as Perfetto (ui.perfetto.dev) and chrome://tracing
open it: one JSON object.

	{"displayTimeUnit":"ms","otherData":{...},"traceEvents":[
	{"ph":"M","name":"process_name","pid":1,"args":{"name":"mpiexec"}},      mpiexec and each host are processes there,
	{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"mpiexec"}},   and each row is a thread
	{"ph":"X","name":"connect","cat":"step","pid":2,"tid":2,"ts":0.5,"dur":1200,"args":{"error":"..."}},
	...
	]}

ts and dur are microseconds, ts since the begin of the run. args has error of a step that failed,
note, and open: true of one that had not ended. clean is show.JSON: what it returns moves no terminal.
*/
func Chrome(w io.Writer, t Trace, clean func([]byte) []byte) error {
	out := bufio.NewWriter(w)
	head, err := json.Marshal(metadata(t))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `{"displayTimeUnit":"ms","otherData":%s,"traceEvents":[`, clean(head))
	c := chromeWriter{out: out, clean: clean}
	for i, o := range groupByHost(t.Spans) {
		c.writeHost(i, o)
	}
	if c.err != nil {
		return c.err
	}
	fmt.Fprint(out, "\n]}\n")
	return out.Flush()
}

// metadata is what stands beside the events.
func metadata(t Trace) map[string]string {
	words := map[string]string{"begun": t.Begun.UTC().Format(time.RFC3339Nano), "seconds": fmt.Sprintf("%.6f", t.Took.Seconds())}
	if t.Title != "" {
		words["command"] = t.Title
	}
	if len(t.Notes) > 0 {
		words["notes"] = strings.Join(t.Notes, "; ")
	}
	return words
}

// A chromeWriter writes events, one line each.
type chromeWriter struct {
	out        *bufio.Writer
	clean      func([]byte) []byte
	err        error
	wroteAny   bool
	lastThread int // thread
}

// A chromeEvent is one of the format. Its args have what JSON has words for.
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

// Micros is a time in microseconds, to the nanosecond.
type micros time.Duration

func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", int64(m)/1000, int64(m)%1000), nil
}

// writeHost writes mpiexec, or a host. The number of a process is that of its first thread, which all
// who show traces take for the main one.
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

// rowTitle is what a row is called.
func rowTitle(row Row) string {
	switch {
	case row.Part != "":
		return row.Part
	case row.Host != "":
		return row.Host
	}
	return "mpiexec"
}

// stepEvent is the event of a step.
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

// write writes one event.
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
	c.out.Write(c.clean(text)) // an error of it comes back with Flush
}
