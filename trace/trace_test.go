package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remshell/format"
	"remshell/trace"
)

// A clock moves only by pass.
type clock struct{ now time.Time }

func newClock() *clock                { return &clock{time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)} }
func (c *clock) read() time.Time      { return c.now }
func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

var n1, n2 = trace.Row{Host: "n1"}, trace.Row{Host: "n2"}

// example returns a trace of two hosts: one logs in slowly, the other refuses the connection.
func example() trace.Trace {
	c := newClock()
	r := trace.New(c.read)
	request := r.Begin(trace.Row{}, trace.Request)
	c.pass(time.Millisecond)
	request.End(nil)
	connects := r.Begin(trace.Row{}, trace.Connect)
	reach1, reach2 := r.Begin(n1, trace.Reach), r.Begin(n2, trace.Reach)
	connect2 := r.Begin(n2, trace.Connect)
	c.pass(500 * time.Nanosecond)
	connect2.End(errors.New("connection refused\x1b[2J\u009b2J\u202e<script>"))
	reach2.End(errors.New("connection refused"))
	login := r.Begin(n1, trace.Authentication)
	c.pass(2 * time.Second)
	login.End(nil)
	reach1.End(nil)
	connects.End(nil)
	rank := r.Begin(trace.Row{Host: "n1", Part: "rank 0", Order: 1}, trace.Run)
	rank.Note("alone")
	c.pass(time.Second)
	t := r.Trace()
	t.Title = "./solver </b>"
	return t
}

// A file is the JSON as a trace viewer reads it.
type file struct {
	DisplayTimeUnit string            `json:"displayTimeUnit"`
	OtherData       map[string]string `json:"otherData"`
	TraceEvents     []struct {
		Ph, Name string
		Pid, Tid int
		Ts, Dur  float64
		Args     map[string]any
	} `json:"traceEvents"`
}

// written writes a trace and reads it back. Each step is a text such as "n1 | n1 | reach 1000.0-2001000.5".
func written(t *testing.T, run trace.Trace) (f file, steps []string) {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Chrome(&b, run, format.EscapeJSON); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &f); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	processes, threads := make(map[int]string), make(map[int]string)
	for _, e := range f.TraceEvents {
		switch {
		case e.Name == "process_name":
			processes[e.Pid] = e.Args["name"].(string)
		case e.Name == "thread_name":
			threads[e.Tid] = e.Args["name"].(string)
		case e.Ph == "X":
			line := fmt.Sprintf("%s | %s | %s %.1f-%.1f", processes[e.Pid], threads[e.Tid], e.Name, e.Ts, e.Ts+e.Dur)
			for _, key := range []string{"error", "note", "open"} {
				if value, has := e.Args[key]; has {
					line += fmt.Sprintf(" %s=%v", key, value)
				}
			}
			steps = append(steps, line)
		}
	}
	return f, steps
}

// Each host is a process and each row a thread, with nested steps.
func TestChrome(t *testing.T) {
	f, steps := written(t, example())
	want := []string{
		"mpiexec | mpiexec | request 0.0-1000.0",
		"mpiexec | mpiexec | connect 1000.0-2001000.5",
		"n1 | n1 | reach 1000.0-2001000.5",
		"n1 | n1 | authentication 1000.5-2001000.5",
		"n1 | rank 0 | run 2001000.5-3001000.5 note=alone open=true",
		"n2 | n2 | reach 1000.0-1000.5 error=connection refused",
		"n2 | n2 | connect 1000.0-1000.5 error=connection refused\x1b[2J\u009b2J\u202e<script>",
	}
	if !slices.Equal(steps, want) {
		t.Errorf("steps are\n%s\nwant\n%s", strings.Join(steps, "\n"), strings.Join(want, "\n"))
	}
	if f.OtherData["command"] != "./solver </b>" || f.OtherData["begun"] != "2026-11-23T14:00:00Z" {
		t.Errorf("beside them stands %v", f.OtherData)
	}
}

// Text from hosts cannot end its JSON string or control a terminal.
func TestChromeHostileText(t *testing.T) {
	var b bytes.Buffer
	trace.Chrome(&b, example(), format.EscapeJSON)
	for _, bad := range []string{"\x1b", "\u009b", "\u202e", "<", ">"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%q is in the file", bad)
		}
	}
	c := newClock()
	r := trace.New(c.read)
	r.Begin(trace.Row{Host: "n\xff\"},{"}, "\"}]}").End(errors.New(strings.Repeat("\xff", 1<<20)))
	if f, steps := written(t, r.Trace()); len(steps) != 1 || len(steps[0]) > 5000 || f.DisplayTimeUnit != "ms" {
		t.Errorf("of one hostile step %d came back: %.200q", len(steps), steps)
	}
}

// Steps of one row that overlap without being nested are in separate lanes.
func TestChromeOverlap(t *testing.T) {
	c := newClock()
	r := trace.New(c.read)
	a := r.Begin(n1, "a")
	c.pass(time.Microsecond)
	b := r.Begin(n1, "b")
	c.pass(time.Microsecond)
	a.End(nil)
	inside := r.Begin(n1, "inside b")
	c.pass(time.Microsecond)
	inside.End(nil)
	b.End(nil)
	r.Begin(n1, "next").End(nil)
	_, steps := written(t, r.Trace())
	want := []string{"n1 | n1 | a 0.0-2.0", "n1 | n1 | inside b 2.0-3.0", "n1 | n1 | next 3.0-3.0", "n1 | n1 (2) | b 1.0-3.0"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps are\n%s\nwant\n%s", strings.Join(steps, "\n"), strings.Join(want, "\n"))
	}
}

// Ranks are in the order of their numbers, whichever started first.
func TestChromeOrder(t *testing.T) {
	c := newClock()
	r := trace.New(c.read)
	for _, rank := range []int{10, 9, 100} {
		r.Begin(trace.Row{Host: "n1", Part: fmt.Sprint("rank ", rank), Order: 1 + rank}, trace.Run).End(nil)
	}
	_, steps := written(t, r.Trace())
	want := []string{"n1 | rank 9 | run 0.0-0.0", "n1 | rank 10 | run 0.0-0.0", "n1 | rank 100 | run 0.0-0.0"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps are %q, want %q", steps, want)
	}
}

// A recorder keeps at most MaxSpans spans, and counts the others.
func TestMaxSpans(t *testing.T) {
	c := newClock()
	r := trace.New(c.read)
	for range trace.MaxSpans + 7 {
		r.Begin(n1, trace.Survey).End(nil)
	}
	for i := range 100 {
		r.Remark(fmt.Sprint("remark ", i%20))
	}
	run := r.Trace()
	if len(run.Spans) != trace.MaxSpans {
		t.Errorf("%d spans were kept, want %d", len(run.Spans), trace.MaxSpans)
	}
	if n := len(run.Remarks); n != 17 || run.Remarks[n-1] != fmt.Sprintf("7 more steps were not recorded after the first %d", trace.MaxSpans) {
		t.Errorf("the remarks are %q", run.Remarks)
	}
}

// A nil recorder accepts all calls and records nothing.
func TestNilRecorder(t *testing.T) {
	var r *trace.Recorder
	s := r.Begin(n1, trace.Reach)
	s.Note("nothing")
	s.End(nil)
	r.Add(n1, trace.End, time.Now())
	r.Remark("nothing")
	if run := r.Trace(); len(run.Spans)+len(run.Remarks) != 0 {
		t.Errorf("nobody has recorded %v", run)
	}
}

// Only the first End of a step counts, and many goroutines may record.
func TestEnds(t *testing.T) {
	r := trace.New(time.Now)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				s := r.Begin(trace.Row{Host: fmt.Sprint("n", i)}, trace.Connect)
				s.End(errors.New("first"))
				s.End(nil)
			}
		})
	}
	all.Wait()
	spans := r.Trace().Spans
	if len(spans) != 800 {
		t.Errorf("%d spans were kept, want 800", len(spans))
	}
	for _, s := range spans {
		if s.Why != "first" || s.Open || s.Took() < 0 {
			t.Fatalf("a step has become %+v", s)
		}
	}
}

// Slowest adds up the innermost steps of a host's start, each once, without waiting.
func TestSlowest(t *testing.T) {
	c := newClock()
	r := trace.New(c.read)
	for i, host := range []string{"n1", "n2", "n3", "n4"} {
		row := trace.Row{Host: host}
		reach := r.Begin(row, trace.Reach)
		permit := r.Begin(row, trace.WaitForPermit)
		c.pass(time.Hour)
		permit.End(nil)
		connect := r.Begin(row, trace.Connect)
		c.pass(time.Duration(i) * time.Second)
		connect.End(nil)
		login := r.Begin(row, trace.Authentication)
		c.pass(2 * time.Second)
		login.End(nil)
		reach.End(nil)
		run := r.Begin(trace.Row{Host: host, Part: "rank 0", Order: 1}, trace.Run)
		c.pass(time.Hour)
		run.End(nil)
		r.Begin(row, trace.End).End(nil)
	}
	r.Begin(trace.Row{}, trace.Job).End(nil)
	slow, hosts := trace.Slowest(r.Trace(), 3)
	text := fmt.Sprint(hosts)
	for _, s := range slow {
		text += fmt.Sprintf(" %s:%v %s:%v", s.Host, s.Took, s.Step.Step, s.Step.Took())
	}
	if want := "4 n4:5s connect:3s n3:4s connect:2s n2:3s authentication:2s"; text != want {
		t.Errorf("the slowest are %s, want %s", text, want)
	}
	if slow, hosts := trace.Slowest(trace.Trace{}, 3); len(slow)+hosts != 0 {
		t.Errorf("of nothing the slowest are %v", slow)
	}
}
