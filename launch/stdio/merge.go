package stdio

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"remshell/idset"
)

const (
	// mergeDelay is how long a line is held back because other ranks may write the same line.
	mergeDelay = time.Second

	// maxMergeBytes is the maximum total size, in bytes, of the lines that are held back.
	maxMergeBytes = 1 << 20

	// mergeDepth is the maximum number of held-back lines that are searched for an equal line.
	mergeDepth = 1000
)

// A lineMerger writes equal lines of several ranks once, with the numbers of these ranks before it: "[0-3,7]
// text". Like lineAssembler, it does no I/O.
//
//	rank 0   a b c        -->   [0-1] a
//	rank 1   a   c              [0] b
//	                            [0-1] c
//
// Lines are held back for a short time. A new line of a rank is merged with an equal line that is held back and comes
// after the rank's previous line. If there is none, the new line is inserted directly after the rank's previous line.
// So the lines of each rank stay in order. A line is written when it can no longer be merged with a line of another
// rank, or at the latest mergeDelay after it has arrived.
type lineMerger struct {
	first        *mergedLine         // waiting lines, as a linked list
	lastLine     map[int]*mergedLine // by running rank, its last line if that waits; nil: it is written
	writtenRanks int                 // ranks whose last line is written, so that they can still join the first
	unfinished   map[int][]byte      // by rank
	waitingBytes int                 // size of all waiting lines
	newLines     []*mergedLine       // added since the last WriteDue
}

// A mergedLine is one line and the ranks that wrote it.
type mergedLine struct {
	text  []byte // with its newline
	ranks []int
	since time.Time // when it, or a line behind it, came; zero: since the last WriteDue
	next  *mergedLine
}

// newLineMerger returns a lineMerger for the output of the given ranks.
func newLineMerger(ranks []int) *lineMerger {
	c := &lineMerger{lastLine: make(map[int]*mergedLine), writtenRanks: len(ranks), unfinished: make(map[int][]byte)}
	for _, rank := range ranks {
		c.lastLine[rank] = nil
	}
	return c
}

// AddOutput adds a piece of a rank's output.
func (c *lineMerger) AddOutput(out *writeBuffer, rank int, piece []byte) {
	for {
		end := bytes.IndexByte(piece, '\n') + 1
		if end == 0 {
			break
		}
		c.addLine(out, rank, append(c.unfinished[rank], piece[:end]...))
		delete(c.unfinished, rank)
		piece = piece[end:]
	}
	if len(piece) == 0 {
		return
	}
	c.unfinished[rank] = append(c.unfinished[rank], piece...)
	if len(c.unfinished[rank]) >= maxUnfinished {
		c.finishLine(out, rank)
	}
}

// finishLine adds a newline to the unfinished line of a rank.
func (c *lineMerger) finishLine(out *writeBuffer, rank int) {
	if rest := c.unfinished[rank]; len(rest) > 0 {
		c.addLine(out, rank, append(rest, '\n'))
		delete(c.unfinished, rank)
	}
}

// addLine adds a line of a rank. It merges the line with an equal line that is held back, or holds it back as a
// separate line.
func (c *lineMerger) addLine(out *writeBuffer, rank int, text []byte) {
	last, living := c.lastLine[rank]
	place := &c.first
	if last != nil {
		place = &last.next
	} else if living {
		c.writtenRanks--
	}
	l := findEqualLine(*place, text)
	if l == nil || !living { // a leftover child of an ended rank joins no line
		l = &mergedLine{text: text, next: *place}
		if l.next != nil {
			l.since = l.next.since
		}
		*place = l
		c.newLines = append(c.newLines, l)
		c.waitingBytes += len(text)
	}
	l.ranks = append(l.ranks, rank)
	if living {
		c.lastLine[rank] = l
	}
	for c.waitingBytes > maxMergeBytes {
		c.writeFirst(out)
	}
}

// findEqualLine returns the first line, in the list that begins with first, that is equal to text. It compares at most
// mergeDepth lines. It returns nil if none is equal.
func findEqualLine(first *mergedLine, text []byte) *mergedLine {
	for range mergeDepth {
		if first == nil || bytes.Equal(first.text, text) {
			return first
		}
		first = first.next
	}
	return nil
}

// writeFirst writes the first of the lines that are held back.
func (c *lineMerger) writeFirst(out *writeBuffer) {
	l := c.first
	for _, rank := range l.ranks {
		if at, living := c.lastLine[rank]; living && at == l {
			c.lastLine[rank] = nil
			c.writtenRanks++
		}
	}
	slices.Sort(l.ranks)
	out.addCopy([]byte("[" + idset.Text(l.ranks) + "] "))
	out.addCopy(l.text)
	c.waitingBytes -= len(l.text)
	c.first = l.next
}

// WriteDue writes the lines that cannot be merged any more, and lines that were held back for mergeDelay. It
// returns the time at which to call it again.
func (c *lineMerger) WriteDue(out *writeBuffer, now time.Time) (time.Time, error) {
	for _, l := range c.newLines {
		if l.since.IsZero() {
			l.since = now
		}
	}
	c.newLines = nil
	for c.first != nil {
		if due := c.first.since.Add(mergeDelay); c.writtenRanks > 0 && now.Before(due) {
			return due, nil
		}
		c.writeFirst(out)
	}
	return time.Time{}, nil
}

// RankEnded records that a rank has ended, so that lines no longer wait for this rank to write an equal line.
func (c *lineMerger) RankEnded(out *writeBuffer, rank int) {
	c.finishLine(out, rank)
	if last, living := c.lastLine[rank]; living && last == nil {
		c.writtenRanks--
	}
	delete(c.lastLine, rank)
}

// WriteOwnLine writes a line that comes from mpiexec itself.
func (c *lineMerger) WriteOwnLine(out *writeBuffer, line []byte) { out.addCopy(line) }

// FlushAll writes all lines that are held back.
func (c *lineMerger) FlushAll(out *writeBuffer) {
	for _, rank := range slices.Sorted(maps.Keys(c.unfinished)) {
		c.finishLine(out, rank)
	}
	for c.first != nil {
		c.writeFirst(out)
	}
}
