package trace

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
)

/*
SVG writes a picture of a trace. mpiexec and each host have a row, in which each step is a bar of its own color:

	                 0.0 s          0.5 s          1.0 s
	mpiexec          |==request=|====connect=====|==start==|
	n1               |=connect=|=login=|
	                           -------------------------------   its ranks
	n2               |=connect=|  connection refused

A step that failed is red and shows the reason. If there are more than maxHosts hosts, the picture shows those that
failed or took longest. If the job took much longer than its start, the picture ends some time after the start. The
picture contains no scripts or links, and text from hosts is escaped.
*/
func SVG(w io.Writer, t Trace) error {
	out := bufio.NewWriter(w)
	shown, more := chooseHosts(groupByHost(t.Spans))
	d := svgWriter{out: out, shownTime: shownTime(t), usedSteps: make(map[string]bool)}
	d.layOutRows(shown)
	d.writeHead(t, more)
	for _, r := range d.rows {
		d.writeRow(r)
	}
	d.writeLegend()
	fmt.Fprint(out, "</svg>\n")
	return out.Flush()
}

// maxHosts is the maximum number of hosts in a picture.
const maxHosts = 40

// These are the sizes of the parts of a picture, in SVG units.
const (
	width       = 1000.0
	left        = 120.0 // x of the beginning of the run
	right       = 20.0
	top         = 56.0
	rowStep     = 22.0
	barSize     = 13.0
	letterWidth = 6.0 // approximate width of a letter
)

// chooseHosts returns mpiexec and the hosts to show in a picture, and the number of hosts that are not shown.
func chooseHosts(all []hostTracks) (shown []hostTracks, hidden int) {
	type weighed struct {
		name   string
		weight int
		took   time.Duration
	}
	var worst []weighed
	for _, o := range all {
		worst = append(worst, weighed{o.name, o.sortWeight(), o.slowHost().Took})
	}
	slices.SortStableFunc(worst, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.took, a.took))
	})
	in := make(map[string]bool)
	for _, w := range worst[:min(len(worst), maxHosts+1)] { // the hosts and mpiexec
		in[w.name] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(o hostTracks) bool { return !in[o.name] }), len(all) - len(in)
}

// sortWeight returns a number by which mpiexec and the hosts are sorted, the largest first: mpiexec, then hosts on
// which a step failed, then the other hosts.
func (o hostTracks) sortWeight() int {
	failed := func(s Span) bool { return s.Why != "" }
	switch {
	case o.name == "":
		return 2
	case slices.ContainsFunc(o.tracks, func(t lane) bool { return slices.ContainsFunc(t.spans, failed) }):
		return 1
	}
	return 0
}

// shownTime returns how much time the picture shows. This is the whole run, unless the run took more than 3 times as
// long as the start of the job. In that case it is 1.5 times the duration of the start.
func shownTime(t Trace) time.Duration {
	var started time.Duration
	for _, s := range t.Spans {
		if w := infoOf(s.Step); w != nil && w.countsForSlowest {
			started = max(started, s.Ended)
		}
	}
	const whole = 3 // times the start
	if started > 0 && t.Took > whole*started {
		return started * 3 / 2
	}
	return max(t.Took, time.Microsecond)
}

// An svgWriter holds the state needed while writing a picture.
type svgWriter struct {
	out       *bufio.Writer
	shownTime time.Duration
	rows      []svgRow
	usedSteps map[string]bool // steps that have a bar
}

// An svgRow is a row of a picture.
type svgRow struct {
	name  string
	y     float64
	lane  lane
	ranks []Span
}

// layOutRows assigns a position to each row. The ranks of a host have no rows: they are thin lines in the first row of
// the host.
func (d *svgWriter) layOutRows(shown []hostTracks) {
	for _, o := range shown {
		first := len(d.rows)
		var ranks []Span
		for _, t := range o.tracks {
			if o.name != "" && t.Part != "" {
				ranks = append(ranks, t.spans...)
				continue
			}
			name := rowTitle(t.Row)
			if t.overlap > 0 {
				name = ""
			}
			d.rows = append(d.rows, svgRow{name: name, y: top + rowStep*float64(len(d.rows)), lane: t})
		}
		if first < len(d.rows) {
			d.rows[first].ranks = ranks
		}
	}
}

// writeHead writes the frame, the title and the time axis.
func (d *svgWriter) writeHead(t Trace, hidden int) {
	bottom := top + rowStep*float64(len(d.rows))
	height := bottom + 3*rowStep
	fmt.Fprintf(d.out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(d.out, `<rect width="%.0f" height="%.0f" fill="#ffffff"/>`+"\n", width, height)
	about := strings.TrimSpace("mpiexec "+t.Title) + " · " + seconds(t.Took)
	if d.shownTime < t.Took {
		about += ", of which the first " + seconds(d.shownTime)
	}
	if hidden > 0 {
		about += fmt.Sprintf(" · %d more hosts were faster", hidden)
	}
	for _, remark := range t.Remarks {
		about += " · " + remark
	}
	d.writeText(8, 18, "#000000", about, width-16)
	step := axisStep(d.shownTime)
	for at := time.Duration(0); at <= d.shownTime; at += step {
		fmt.Fprintf(d.out, `<path d="M%.1f %.1fV%.1f" stroke="#dddddd"/>`+"\n", d.xOf(at), top-12, bottom)
		if d.xOf(at) < width-right-letterWidth*4 { // else it would not fit
			d.writeText(d.xOf(at)+3, top-16, "#666666", seconds(at), width)
		}
	}
}

// axisStep returns the time between two marks of the time axis, which has at most nine marks.
func axisStep(duration time.Duration) time.Duration {
	for step := time.Microsecond; ; step *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if duration/(step*n) < 9 {
				return step * n
			}
		}
	}
}

// xOf returns the x coordinate of a time in the picture.
func (d *svgWriter) xOf(at time.Duration) float64 {
	return left + (width-left-right)*float64(min(at, d.shownTime))/float64(d.shownTime)
}

// writeRow draws a row of the picture. A step that contains other steps is pale, and the other steps are drawn over
// it.
func (d *svgWriter) writeRow(r svgRow) {
	d.writeText(8, r.y+barSize-2, "#000000", r.name, left-12)
	for i, s := range r.lane.spans {
		free := width // until the next step
		if i+1 < len(r.lane.spans) {
			free = d.xOf(r.lane.spans[i+1].Began)
		}
		d.writeBar(r, s, r.lane.isInnermost(i), free)
	}
	for _, s := range r.ranks {
		if s.Began < d.shownTime {
			d.usedSteps[Run] = true
			fmt.Fprintf(d.out, `<rect x="%.1f" y="%.1f" width="%.1f" height="3" fill="%s"/>`+"\n", d.xOf(s.Began), r.y+barSize+1, d.barWidth(s), barColor(s, true))
		}
	}
}

// writeBar draws the bar of a step. The name of the step is inside the bar, and the reason for a failure is to the
// right of the bar. leaf is true if the step contains no other step. free is the x coordinate up to which the text may
// extend.
func (d *svgWriter) writeBar(r svgRow, s Span, leaf bool, free float64) {
	if s.Began >= d.shownTime {
		return
	}
	x, wide := d.xOf(s.Began), d.barWidth(s)
	d.usedSteps[s.Step] = d.usedSteps[s.Step] || leaf
	fmt.Fprintf(d.out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" fill="%s"><title>`, x, r.y, wide, barSize, barColor(s, leaf))
	d.writeEscaped(fmt.Sprintf("%s: %s %s", r.name, s.Step, seconds(s.Took())))
	if s.Why != "" {
		d.writeEscaped(" failed: " + s.Why)
	}
	if s.Note != "" {
		d.writeEscaped(" (" + s.Note + ")")
	}
	fmt.Fprint(d.out, "</title></rect>\n")
	switch {
	case !leaf:
	case s.Why != "":
		why := s.Step + ": " + strings.TrimPrefix(s.Why, s.Step+": ")
		d.writeText(x+wide+3, r.y+barSize-3, failedColor, why, free-x-wide-8)
	case wide > letterWidth*float64(len(s.Step))+4:
		d.writeText(x+3, r.y+barSize-3, "#ffffff", s.Step, wide)
	}
}

// barWidth returns the width of a step's bar. It is at least half a unit, so that the bar is visible.
func (d *svgWriter) barWidth(s Span) float64 { return max(0.5, d.xOf(s.Ended)-d.xOf(s.Began)) }

// failedColor is the color of a failed step.
const failedColor = "#c62828"

// barColor returns the color of a step's bar. leaf is true if the step contains no other step. A step that contains
// others is pale, even if it has failed.
func barColor(s Span, leaf bool) string {
	w := infoOf(s.Step)
	switch {
	case leaf && s.Why != "":
		return failedColor
	case w == nil:
		return "#888888"
	case !leaf && s.Step != Run:
		return "#ececec"
	}
	return w.color
}

// writeLegend writes a legend of the colors of the steps.
func (d *svgWriter) writeLegend() {
	x, y := left, top+rowStep*float64(len(d.rows))+12
	for _, w := range stepInfos {
		if !d.usedSteps[w.step] {
			continue
		}
		wide := 24 + letterWidth*float64(len(w.step))
		if x+wide > width-right {
			x, y = left, y+18
		}
		fmt.Fprintf(d.out, `<rect x="%.1f" y="%.1f" width="10" height="10" fill="%s"/>`+"\n", x, y, w.color)
		d.writeText(x+14, y+9, "#333333", w.step, width)
		x += wide
	}
}

// writeText writes a line of text, cut to a width of maxWidth.
func (d *svgWriter) writeText(x, y float64, color, text string, maxWidth float64) {
	if most := max(0, int(maxWidth/letterWidth)); len([]rune(text)) > most {
		text = string([]rune(text)[:max(0, most-1)]) + "…"
	}
	if text == "" || maxWidth < 2*letterWidth {
		return
	}
	fmt.Fprintf(d.out, `<text x="%.1f" y="%.1f" fill="%s">`, x, y, color)
	d.writeEscaped(text)
	fmt.Fprint(d.out, "</text>\n")
}

// writeEscaped writes text that may come from hosts. It escapes the text for XML and replaces unprintable
// characters.
func (d *svgWriter) writeEscaped(text string) {
	xml.EscapeText(d.out, []byte(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text))) // Flush returns an error of this write
}

// seconds formats a duration for people, such as "1.25 s" or "380 ms".
func seconds(d time.Duration) string {
	if d < time.Second && d > 0 {
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.4g s", d.Seconds())
}
