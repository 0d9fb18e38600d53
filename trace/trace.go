/*
Package trace records the steps of a run and their times, and formats them.

	sshx, transport, launch/... --Begin, End--> Recorder --Trace--> Chrome    JSON for Perfetto and chrome://tracing
	                                                          '---> Slowest   the slowest hosts
	                                                          '---> SVG       a picture

All times come from mpiexec's clock: a step of a host ends when mpiexec receives the message about the end. Clocks
of different hosts are never compared.

A nil Recorder records nothing, and takes no time.
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

// A Row identifies a row of the trace: mpiexec, a host, or a rank on a host.
type Row struct {
	Host  string // name as the user wrote it; empty: mpiexec
	Part  string // part of the host or of mpiexec, such as "rank 3"; empty: the host itself
	Order int    // order among the parts of one host; 0 for the host itself
}

// A Span is a step of a run with the times at which it began and ended.
type Span struct {
	Row
	Step  string        // one of the constants, or "attempt 1"
	Began time.Duration // time since the recorder was made
	Ended time.Duration // likewise
	Open  bool          // the step had not ended when Trace was called
	Why   string        // why the step failed; empty: it did not. It may contain text from hosts
	Note  string        // more about the step; may be empty
}

// Took returns the duration of the step.
func (s Span) Took() time.Duration { return s.Ended - s.Began }

// MaxSpans is the maximum number of spans that a Recorder keeps. Further spans are counted but not kept. A span
// takes about 120 bytes.
const MaxSpans = 250_000

// maxErrorText is the maximum number of bytes of an error's text that are kept.
const maxErrorText = 500

// A Recorder records spans. A nil Recorder records nothing. Its methods may be called from any goroutine.
type Recorder struct {
	now   func() time.Time
	began time.Time

	mu      sync.Mutex // guards the rest
	spans   []Span
	dropped int
	remarks []string
}

// New returns a Recorder that calls now to get the time.
func New(now func() time.Time) *Recorder { return &Recorder{now: now, began: now()} }

// A Step is a span that has not ended yet. The methods of a zero Step do nothing.
type Step struct {
	recorder *Recorder
	index    int
}

// Begin records the beginning of a step. The caller must call End on the result.
func (r *Recorder) Begin(row Row, step string) Step {
	if r == nil {
		return Step{}
	}
	return r.add(Span{Row: row, Step: step, Began: r.now().Sub(r.began), Open: true})
}

// Add records a step that began at the time start and ends now.
func (r *Recorder) Add(row Row, step string, start time.Time) {
	if r != nil {
		r.add(Span{Row: row, Step: step, Began: max(0, start.Sub(r.began)), Ended: r.now().Sub(r.began)})
	}
}

// Do records the call of do as a step, and returns its error.
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

// End records the end of a step. err says why the step failed, or is nil if the step succeeded. Further calls do
// nothing.
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

// reasonOf returns the text of an error. If host is not empty and the error has a method Reason, reasonOf
// returns the result of Reason. That text does not contain the host's name.
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

// Note attaches a note to the step. It replaces an earlier note.
func (s Step) Note(text string) {
	if s.recorder == nil {
		return
	}
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.recorder.spans[s.index].Note = truncate(text)
}

// maxRemarks is the maximum number of remarks that a Recorder keeps.
const maxRemarks = 16

// Remark adds a remark about the whole trace. It ignores a remark that was added before.
func (r *Recorder) Remark(text string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.remarks) < maxRemarks && !slices.Contains(r.remarks, text) {
		r.remarks = append(r.remarks, text)
	}
}

// truncate cuts text, which may come from hosts, to maxErrorText bytes.
func truncate(text string) string {
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	return text
}

// A Trace contains the spans and remarks that a Recorder has recorded.
type Trace struct {
	Title   string    // command of the run; empty: unknown
	Begun   time.Time // when the recorder was made
	Took    time.Duration
	Spans   []Span   // in the order of recording
	Remarks []string // about the whole run
}

// Trace returns everything recorded so far. For a step that has not ended, the end is the current time and Open is set.
func (r *Recorder) Trace() Trace {
	if r == nil {
		return Trace{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Trace{Begun: r.began, Took: r.now().Sub(r.began), Spans: slices.Clone(r.spans), Remarks: slices.Clone(r.remarks)}
	if r.dropped > 0 {
		t.Remarks = append(t.Remarks, fmt.Sprintf("%d more steps were not recorded after the first %d", r.dropped, MaxSpans))
	}
	for i := range t.Spans {
		if t.Spans[i].Open {
			t.Spans[i].Ended = t.Took
		}
	}
	return t
}
