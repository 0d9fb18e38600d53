package stdio

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

const (
	// maxUnfinished is the maximum number of bytes of an unfinished line that are held back (rule IO-8).
	maxUnfinished = 64 << 10

	// unfinishedDelay is how long an unfinished line is held back. It is short, so that prompts of programs appear
	// without a noticeable delay (rule IO-8).
	unfinishedDelay = 50 * time.Millisecond
)

// A lineAssembler merges the output of many ranks without mixing their lines (rules IO-8, IO-9). It does no
// I/O: it appends the bytes to write to a writeBuffer.
//
// Without labels, the bytes of each rank are unchanged. With labels, each line begins with a label, and a newline is
// added to a last line that does not end with one.
type lineAssembler struct {
	Label func(rank int) []byte // returns the label of a rank; nil: no labels
	Raw   bool                  // unfinished lines are not held back

	unfinished map[int][]byte // unfinished lines, by rank
	openRank   int            // the rank whose unfinished line was written last; -1: none
	hasNew     bool           // a piece came since the last WriteDue
	lastPiece  time.Time      // time of the WriteDue after the last piece
}

// newLineAssembler returns a lineAssembler. label returns the label of a rank. If label is nil, lines are not
// labelled.
func newLineAssembler(label func(rank int) []byte) *lineAssembler {
	return &lineAssembler{Label: label, unfinished: make(map[int][]byte), openRank: -1}
}

// AddOutput adds a piece of a rank's output. It appends to out the bytes that can be written now.
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

// WriteDue is called after each batch of pieces. If only one rank has an unfinished line, and that line is older than
// unfinishedDelay, WriteDue appends the line to out. It returns the time of the next call if no further pieces come.
// The zero time means that no call is needed.
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

// FlushAll writes all unfinished lines, in the order of the ranks.
func (l *lineAssembler) FlushAll(out *writeBuffer) {
	for _, rank := range slices.Sorted(maps.Keys(l.unfinished)) {
		l.flushRank(out, rank)
	}
}

// flushRank writes the unfinished line of a rank, such as a prompt.
func (l *lineAssembler) flushRank(out *writeBuffer, rank int) {
	if len(l.unfinished[rank]) > 0 {
		l.writeHeld(out, rank, nil)
	}
}

// RankEnded writes the unfinished line of a rank that has ended. With labels it also writes a newline.
func (l *lineAssembler) RankEnded(out *writeBuffer, rank int) {
	l.flushRank(out, rank)
	if l.Label != nil {
		l.finishLine(out, l.openRank == rank)
	}
}

// WriteOwnLine writes a line that comes from mpiexec itself. If the last thing written is an unfinished line
// of a rank, it ends that line first.
func (l *lineAssembler) WriteOwnLine(out *writeBuffer, line []byte) {
	l.finishLine(out, true)
	out.addCopy(line)
}

// finishLine writes a newline after the unfinished line that was written last, if needed is true.
func (l *lineAssembler) finishLine(out *writeBuffer, needed bool) {
	if needed && l.openRank >= 0 {
		out.addCopy([]byte("\n"))
		l.openRank = -1
	}
}

// writeHeld writes the held-back part of a rank's line, followed by body. It puts a label before each line that
// begins in this text.
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
	l.finishLine(out, l.openRank != rank) // a line does not begin inside another rank's line
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

// endsLine reports whether head followed by body ends with a newline. At least one of them must not be
// empty.
func endsLine(head, body []byte) bool {
	if len(body) == 0 {
		body = head
	}
	return body[len(body)-1] == '\n'
}
