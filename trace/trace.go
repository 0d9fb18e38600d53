/*
Package trace keeps what a run did when, and shows it.

	sshx, reach, launch/... --Begin, End--> Recorder --Trace--> Chrome    JSON for Perfetto and chrome://tracing
	                                                      '---> Slowest   a line for people
	                                                      '---> SVG       a picture

All times are of one clock, that of mpiexec: what a host has done is noted when the news of it
arrive. Clocks of two hosts are never compared.

A nil Recorder records nothing, and costs nothing.
*/
package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Row is whose a step is: mpiexec's, a host's, or that of a rank there.
type Row struct {
	Host  string // as the user calls it; empty: mpiexec
	Part  string // of the host, or of mpiexec: "rank 3"; empty: the whole of it
	Order int    // among the parts of one host; the whole of it has 0
}

// A Span is a step and the time that it took.
type Span struct {
	Row
	Step  string        // one of the words below, or "attempt 1"
	Began time.Duration // since the recorder was made
	Ended time.Duration // likewise
	Open  bool          // it had not ended when the recorder was asked
	Why   string        // it failed; empty: it did not. What others say may be in it
	Note  string        // what else there is to tell; empty: nothing
}

// Took is how long it lasted.
func (s Span) Took() time.Duration { return s.Ended - s.Began }

// MaxSpans spans that a recorder keeps; what comes later is counted, and left out. A span takes some 120 bytes.
const MaxSpans = 250_000

// maxErrorText is how much of an error is kept, in bytes.
const maxErrorText = 500

// A Recorder keeps spans. Its methods may be called from any goroutine.
type Recorder struct {
	now   func() time.Time
	began time.Time

	mu      sync.Mutex // guards the rest
	spans   []Span
	dropped int
	remarks []string // remarks
}

// New makes a recorder that has its times from a clock.
func New(now func() time.Time) *Recorder { return &Recorder{now: now, began: now()} }

// A Step is a span that has not ended. The zero value is none.
type Step struct {
	recorder *Recorder
	index    int
}

// Begin notes that a step begins.
func (r *Recorder) Begin(row Row, step string) Step {
	if r == nil {
		return Step{}
	}
	return r.add(Span{Row: row, Step: step, Began: r.now().Sub(r.began), Open: true})
}

// Add notes a step of which it is only known now that it was one, from began until now.
func (r *Recorder) Add(row Row, step string, began time.Time) {
	if r != nil {
		r.add(Span{Row: row, Step: step, Began: max(0, began.Sub(r.began)), Ended: r.now().Sub(r.began)})
	}
}

// Do does something that is a step, and returns its error.
func (r *Recorder) Do(row Row, step string, do func() error) error {
	s := r.Begin(row, step)
	err := do()
	s.End(err)
	return err
}

func (r *Recorder) add(s Span) Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) >= MaxSpans {
		r.dropped++
		return Step{}
	}
	r.spans = append(r.spans, s)
	return Step{r, len(r.spans) - 1}
}

// End notes that a step has ended, well or with an error. Only the first end counts.
func (s Step) End(err error) {
	if s.recorder == nil {
		return
	}
	ended := s.recorder.now().Sub(s.recorder.began)
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	if span := &s.recorder.spans[s.index]; span.Open {
		span.Open, span.Ended, span.Why = false, ended, reasonOf(err, span.Host)
	}
}

// reasonOf is an error's text; of a step of one host the reason alone, where the error can tell it without the host's name.
func reasonOf(err error, host string) string {
	var short interface{ Reason() string }
	switch {
	case err == nil:
		return ""
	case host != "" && errors.As(err, &short):
		return truncate(short.Reason())
	}
	return truncate(err.Error())
}

// Note adds what is worth telling of a step.
func (s Step) Note(text string) {
	if s.recorder == nil {
		return
	}
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.recorder.spans[s.index].Note = truncate(text)
}

// mostRemarks is how many different remarks a recorder keeps.
const mostRemarks = 16

// Remark notes, once, what is worth telling of the whole trace.
func (r *Recorder) Remark(text string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.remarks) < mostRemarks && !slices.Contains(r.remarks, text) {
		r.remarks = append(r.remarks, text)
	}
}

// truncate shortens what others have said.
func truncate(text string) string {
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	return text
}

// A Trace is what was recorded, as a value.
type Trace struct {
	Title string    // what the run was; empty: unknown
	Begun time.Time // when the recorder was made
	Took  time.Duration
	Spans []Span   // in the order in which they began
	Notes []string // what is worth telling of all of it
}

// Trace is what was recorded until now. Steps that have not ended end now.
func (r *Recorder) Trace() Trace {
	if r == nil {
		return Trace{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Trace{Begun: r.began, Took: r.now().Sub(r.began), Spans: slices.Clone(r.spans), Notes: slices.Clone(r.remarks)}
	if r.dropped > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d steps are missing behind the first %d", r.dropped, MaxSpans))
	}
	for i := range t.Spans {
		if t.Spans[i].Open {
			t.Spans[i].Ended = t.Took
		}
	}
	return t
}
