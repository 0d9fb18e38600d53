package stdio

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

const (
	// maxHeld is how much of an unfinished line is held back (IO-8), in bytes.
	maxHeld = 64 << 10

	// holdTime is how long an unfinished line waits for its rest, so that prompts
	// show (IO-8).
	holdTime = 50 * time.Millisecond
)

// Lines put the output of many ranks together so that no line is torn (IO-8,
// IO-9). They are a pure machine: pieces in, bytes to write out.
//
// Without labels bytes pass unchanged. With labels every line gets one, and a last
// line without newline gets that too.
type lines struct {
	Label func(rank int) []byte // nil: none
	Raw   bool                  // nothing waits for its rest

	held map[int][]byte // unfinished lines, by rank
	open int            // the rank whose unfinished line was written; -1: none
	news bool           // something came since the last Tick
	last time.Time      // when that was
}

// newLines returns lines for a job's stdout or stderr.
func newLines(label func(rank int) []byte) *lines {
	return &lines{Label: label, held: make(map[int][]byte), open: -1}
}

// Add takes a piece of a rank's output and adds to out what can be written.
func (l *lines) Add(out *chunks, rank int, piece []byte) {
	l.news = true
	end := len(piece)
	if !l.Raw {
		end = bytes.LastIndexByte(piece, '\n') + 1
	}
	if end > 0 {
		l.emit(out, rank, piece[:end])
	}
	if rest := piece[end:]; len(rest) > 0 {
		l.held[rank] = append(l.held[rank], rest...)
		if len(l.held[rank]) >= maxHeld {
			l.flush(out, rank)
		}
	}
}

// Tick tells the time, and is called after each batch of pieces. It shows the unfinished
// line of the one rank that has any, when that has waited long enough: of several, none
// is shown before it is whole. It returns when to call again at the latest, if nothing
// comes; zero: there is no need.
func (l *lines) Tick(out *chunks, now time.Time) (time.Time, error) {
	if l.news {
		l.news, l.last = false, now
	}
	if len(l.held) != 1 {
		return time.Time{}, nil
	}
	if due := l.last.Add(holdTime); now.Before(due) {
		return due, nil
	}
	l.Flush(out)
	return time.Time{}, nil
}

// Flush writes all unfinished lines, by rank.
func (l *lines) Flush(out *chunks) {
	for _, rank := range slices.Sorted(maps.Keys(l.held)) {
		l.flush(out, rank)
	}
}

// flush writes the unfinished line of a rank as it is: a prompt, or its last word.
func (l *lines) flush(out *chunks, rank int) {
	if len(l.held[rank]) > 0 {
		l.emit(out, rank, nil)
	}
}

// End writes what a rank that is over has left, and finishes its line if it has a
// label.
func (l *lines) End(out *chunks, rank int) {
	l.flush(out, rank)
	if l.Label != nil {
		l.finish(out, l.open == rank)
	}
}

// Ours takes a whole line of our own; it never continues a rank's.
func (l *lines) Ours(out *chunks, line []byte) {
	l.finish(out, true)
	out.copy(line)
}

// finish ends the line that stands unfinished, if it is to.
func (l *lines) finish(out *chunks, it bool) {
	if it && l.open >= 0 {
		out.copy([]byte("\n"))
		l.open = -1
	}
}

// emit writes what is held of a rank and body behind it, with a label before each line
// that begins there.
func (l *lines) emit(out *chunks, rank int, body []byte) {
	head := l.held[rank]
	delete(l.held, rank)
	if l.Label == nil {
		out.copy(head)
		out.borrow(body)
		if l.open = rank; endsLine(head, body) {
			l.open = -1
		}
		return
	}
	l.finish(out, l.open != rank) // a line does not begin inside another's
	label := l.Label(rank)
	if l.open != rank {
		out.copy(label)
	}
	out.copy(head)
	for {
		end := bytes.IndexByte(body, '\n') + 1
		if end == 0 || end == len(body) {
			break
		}
		out.copy(body[:end])
		out.copy(label)
		body = body[end:]
	}
	out.copy(body)
	if l.open = rank; endsLine(head, body) {
		l.open = -1
	}
}

// endsLine reports whether head and body, one of which is not empty, end with a newline.
func endsLine(head, body []byte) bool {
	if len(body) == 0 {
		body = head
	}
	return body[len(body)-1] == '\n'
}
