package launch

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// maxHeld is how much of an unfinished line is held back (IO-8).
const maxHeld = 64 << 10

// Lines puts the output of many ranks together so that no line is torn (IO-8,
// IO-9). It is a pure machine: pieces in, bytes to write out.
//
// Without labels bytes pass unchanged. With labels every line gets one, and a last
// line without newline gets that too.
type Lines struct {
	Label bool

	held map[int][]byte // unfinished lines, by rank
	open int            // the rank whose unfinished line was written; -1: none
}

// NewLines returns Lines for a job's stdout or stderr.
func NewLines(label bool) *Lines {
	return &Lines{Label: label, held: make(map[int][]byte), open: -1}
}

// Add takes a piece of a rank's output and appends to out what can be written.
func (l *Lines) Add(out []byte, rank int, piece []byte) []byte {
	end := bytes.LastIndexByte(piece, '\n') + 1
	if end > 0 {
		out = l.begin(out, rank)
		out = l.emit(out, rank, l.held[rank], piece[:end])
		delete(l.held, rank)
	}
	if rest := piece[end:]; len(rest) > 0 {
		l.held[rank] = append(l.held[rank], rest...)
		if len(l.held[rank]) >= maxHeld {
			out = l.Flush(out, rank)
		}
	}
	return out
}

// Held is how many ranks have an unfinished line.
func (l *Lines) Held() int { return len(l.held) }

// FlushAll writes all unfinished lines, by rank.
func (l *Lines) FlushAll(out []byte) []byte {
	for _, rank := range slices.Sorted(maps.Keys(l.held)) {
		out = l.Flush(out, rank)
	}
	return out
}

// Flush writes the unfinished line of a rank as it is: a prompt, or its last word.
func (l *Lines) Flush(out []byte, rank int) []byte {
	held := l.held[rank]
	if len(held) == 0 {
		return out
	}
	delete(l.held, rank)
	out = l.begin(out, rank)
	out = l.emit(out, rank, nil, held)
	l.open = rank
	return out
}

// End writes what a rank that is over has left, and finishes its line if it has a
// label.
func (l *Lines) End(out []byte, rank int) []byte {
	out = l.Flush(out, rank)
	if l.Label && l.open == rank {
		out = append(out, '\n')
		l.open = -1
	}
	return out
}

// Ours takes a whole line of our own; it never continues a rank's.
func (l *Lines) Ours(out, line []byte) []byte {
	if l.open >= 0 {
		out = append(out, '\n')
		l.open = -1
	}
	return append(out, line...)
}

// begin makes sure that a labelled line of rank does not begin inside another's.
func (l *Lines) begin(out []byte, rank int) []byte {
	if l.open >= 0 && l.open != rank && l.Label {
		out = append(out, '\n')
		l.open = -1
	}
	return out
}

// emit writes head and body, which follow each other, with a label before each
// line that begins in them.
func (l *Lines) emit(out []byte, rank int, head, body []byte) []byte {
	if !l.Label {
		l.open = -1
		return append(append(out, head...), body...)
	}
	if l.open != rank {
		out = appendLabel(out, rank)
	}
	out = append(out, head...)
	for {
		end := bytes.IndexByte(body, '\n') + 1
		if end == 0 {
			return append(out, body...)
		}
		out = append(out, body[:end]...)
		l.open = -1
		if body = body[end:]; len(body) == 0 {
			return out
		}
		out = appendLabel(out, rank)
	}
}

// appendLabel is the label of -l, "[3] ".
func appendLabel(out []byte, rank int) []byte {
	out = append(out, '[')
	out = strconv.AppendInt(out, int64(rank), 10)
	return append(out, "] "...)
}
