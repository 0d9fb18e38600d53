package trace_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/format"
	"remshell/trace"
)

// A picture is the parsed SVG: hosts by row, titles of bars, and all elements.
type picture struct {
	texts, titles []string
	elements      map[string]int
}

// drawn draws a trace and parses the result as XML.
func drawn(t testing.TB, run trace.Trace) (p picture, raw string) {
	t.Helper()
	var b bytes.Buffer
	if err := trace.SVG(&b, run); err != nil {
		t.Fatal(err)
	}
	p.elements = make(map[string]int)
	raw = b.String()
	inside := ""
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p, raw
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, raw)
		}
		switch x := token.(type) {
		case xml.StartElement:
			inside = x.Name.Local
			p.elements[inside]++
		case xml.CharData:
			switch text := string(x); {
			case strings.TrimSpace(text) == "":
			case inside == "title":
				p.titles = append(p.titles, text)
			default:
				p.texts = append(p.texts, text)
			}
		}
	}
}

// has fails the test unless all wanted texts are in the list.
func has(t *testing.T, what string, all []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(all, w) {
			t.Errorf("%s: %q is missing in %q", what, w, all)
		}
	}
}

// A picture has a bar for each step, with its duration and the reason of a failure.
func TestSVG(t *testing.T) {
	p, _ := drawn(t, example())
	has(t, "titles", p.titles, "mpiexec: request 1 ms", "mpiexec: connect 2 s", "n1: authentication 2 s", "n2: reach 0.0005 ms failed: connection refused")
	has(t, "texts", p.texts, "mpiexec ./solver </b> · 3.001 s", "mpiexec", "n1", "n2", "connect", "authentication", "run")
	for name := range p.elements {
		if !slices.Contains([]string{"svg", "rect", "path", "text", "title"}, name) {
			t.Errorf("there is an element %s", name)
		}
	}
}

// Text from hosts stays text, whatever it contains.
func TestSVGHostileText(t *testing.T) {
	_, raw := drawn(t, example())
	for _, bad := range []string{"\x1b", "\u009b", "\u202e", "<script", "</b>"} {
		if strings.Contains(raw, bad) {
			t.Errorf("%q is in the picture:\n%s", bad, raw)
		}
	}
}

// Of many hosts the picture shows those that failed and the slowest.
func TestSVGOfManyHosts(t *testing.T) {
	c := newClock()
	r := trace.New(c.read)
	r.Begin(trace.Row{}, trace.Job)
	for i := range 100 {
		s := r.Begin(trace.Row{Host: fmt.Sprint("n", i)}, trace.Connect)
		c.pass(time.Duration(100+i) * time.Millisecond)
		var err error
		if i == 7 {
			err = errors.New("no route")
		}
		s.End(err)
	}
	p, _ := drawn(t, r.Trace())
	has(t, "texts", p.texts, "n7", "n99", "n61", "connect: no route")
	if slices.Contains(p.texts, "n60") || !strings.HasSuffix(p.texts[0], " · 60 more hosts were faster") {
		t.Errorf("the texts are %q", p.texts)
	}
}

// If a job takes much longer than its start, the picture shows the start.
func TestSVGOfALongJob(t *testing.T) {
	c := newClock()
	r := trace.New(c.read)
	reach := r.Begin(n1, trace.Reach)
	c.pass(2 * time.Second)
	reach.End(nil)
	run := r.Begin(trace.Row{Host: "n1", Part: "rank 0", Order: 1}, trace.Run)
	c.pass(time.Hour)
	run.End(nil)
	r.Begin(n1, trace.End).End(nil)
	p, _ := drawn(t, r.Trace())
	has(t, "texts", p.texts, "mpiexec · 3602 s, of which the first 3 s", "2.5 s")
	if slices.Contains(p.texts, "end") {
		t.Errorf("the texts are %q", p.texts)
	}
	if p, _ := drawn(t, trace.Trace{}); len(p.titles) != 0 {
		t.Errorf("of nothing there are bars: %q", p.titles)
	}
}

// FuzzWritten writes any text from hosts into both formats, which must stay well-formed.
func FuzzWritten(f *testing.F) {
	f.Add("n1", "rank 0", "connect", "connection refused", "note", uint16(3), uint16(5))
	f.Add("</svg>", "\x00\x1b", "\xff", "]]>", "\u202e\"}]", uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, host, part, step, why, note string, gap, took uint16) {
		c := newClock()
		r := trace.New(c.read)
		for range 3 {
			s := r.Begin(trace.Row{Host: host, Part: part}, step)
			s.Note(note)
			c.pass(time.Duration(gap))
			over := r.Begin(trace.Row{Host: host}, step)
			c.pass(time.Duration(took))
			s.End(errors.New(why))
			c.pass(time.Duration(gap))
			over.End(nil)
		}
		run := r.Trace()
		run.Title = note
		drawn(t, run)
		var b bytes.Buffer
		if err := trace.Chrome(&b, run, format.EscapeJSON); err != nil || !json.Valid(b.Bytes()) {
			t.Errorf("%v in\n%s", err, b.String())
		}
	})
}
