package stdio

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

const (
	// maxUnfinished is how much of an unfinished line is held back (IO-8), in bytes.
	maxUnfinished = 64 << 10

	// unfinishedDelay is how long an unfinished line waits for its rest, so that prompts
	// show (IO-8).
	unfinishedDelay = 50 * time.Millisecond
)

// Lines put the output of many ranks together so that no line is torn (IO-8,
// IO-9). They are a pure machine: pieces in, bytes to write out.
//
// Without labels bytes pass unchanged. With labels every line gets one, and a last
// line without newline gets that too.
type lineAssembler struct {
	Label func(rank int) []byte // nil: none
	Raw   bool                  // nothing waits for its rest

	unfinished map[int][]byte // unfinished lines, by rank
	openRank   int            // the rank whose unfinished line was written; -1: none
	hasNew     bool           // something came since the last Tick
	lastPiece  time.Time      // when that was
}

// newLineAssembler returns lines for a job's stdout or stderr.
func newLineAssembler(label func(rank int) []byte) *lineAssembler {
	return &lineAssembler{Label: label, unfinished: make(map[int][]byte), openRank: -1}
}

// AddOutput takes a piece of a rank's output and adds to out what can be written.
func (l *lineAssembler) AddOutput(out *writeBuffer, rank int, piece []byte) {
	l.hasNew = true
	end := len(piece)
	if !l.Raw {
		end = bytes.LastIndexByte(piece, '\n') + 1
	}
	if end > 0 {
		l.writeHeld(out, rank, piece[:end])
	}
	if rest := piece[end:]; len(rest) > 0 {
		l.unfinished[rank] = append(l.unfinished[rank], rest...)
		if len(l.unfinished[rank]) >= maxUnfinished {
			l.flushRank(out, rank)
		}
	}
}

// WriteDue tells the time, and is called after each batch of pieces. It shows the unfinished
// line of the one rank that has any, when that has waited long enough: of several, none
// is shown before it is whole. It returns when to call again at the latest, if nothing
// comes; zero: there is no need.
func (l *lineAssembler) WriteDue(out *writeBuffer, now time.Time) (time.Time, error) {
	if l.hasNew {
		l.hasNew, l.lastPiece = false, now
	}
	if len(l.unfinished) != 1 {
		return time.Time{}, nil
	}
	if due := l.lastPiece.Add(unfinishedDelay); now.Before(due) {
		return due, nil
	}
	l.FlushAll(out)
	return time.Time{}, nil
}

// FlushAll writes all unfinished lines, by rank.
func (l *lineAssembler) FlushAll(out *writeBuffer) {
	for _, rank := range slices.Sorted(maps.Keys(l.unfinished)) {
		l.flushRank(out, rank)
	}
}

// flushRank writes the unfinished line of a rank as it is: a prompt, or its last word.
func (l *lineAssembler) flushRank(out *writeBuffer, rank int) {
	if len(l.unfinished[rank]) > 0 {
		l.writeHeld(out, rank, nil)
	}
}

// RankEnded writes what a rank that is over has left, and finishes its line if it has a
// label.
func (l *lineAssembler) RankEnded(out *writeBuffer, rank int) {
	l.flushRank(out, rank)
	if l.Label != nil {
		l.finishLine(out, l.openRank == rank)
	}
}

// WriteOwnLine takes a whole line of our own; it never continues a rank's.
func (l *lineAssembler) WriteOwnLine(out *writeBuffer, line []byte) {
	l.finishLine(out, true)
	out.addCopy(line)
}

// finishLine ends the line that stands unfinished, if it is to.
func (l *lineAssembler) finishLine(out *writeBuffer, it bool) {
	if it && l.openRank >= 0 {
		out.addCopy([]byte("\n"))
		l.openRank = -1
	}
}

// writeHeld writes what is held of a rank and body behind it, with a label before each line
// that begins there.
func (l *lineAssembler) writeHeld(out *writeBuffer, rank int, body []byte) {
	head := l.unfinished[rank]
	delete(l.unfinished, rank)
	if l.Label == nil {
		out.addCopy(head)
		out.addBorrowed(body)
		if l.openRank = rank; endsLine(head, body) {
			l.openRank = -1
		}
		return
	}
	l.finishLine(out, l.openRank != rank) // a line does not begin inside another's
	label := l.Label(rank)
	if l.openRank != rank {
		out.addCopy(label)
	}
	out.addCopy(head)
	for {
		end := bytes.IndexByte(body, '\n') + 1
		if end == 0 || end == len(body) {
			break
		}
		out.addCopy(body[:end])
		out.addCopy(label)
		body = body[end:]
	}
	out.addCopy(body)
	if l.openRank = rank; endsLine(head, body) {
		l.openRank = -1
	}
}

// endsLine reports whether head and body, one of which is not empty, end with a newline.
func endsLine(head, body []byte) bool {
	if len(body) == 0 {
		body = head
	}
	return body[len(body)-1] == '\n'
}
