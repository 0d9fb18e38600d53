package stdio

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"remshell/idset"
)

const (
	// mergeDelay is how long a line waits for other ranks to write an equal one.
	mergeDelay = time.Second

	// maxMergeBytes is how much waits at most, in bytes.
	maxMergeBytes = 1 << 20

	// mergeDepth is among how many lines that wait an equal one is looked for.
	mergeDepth = 1000
)

// A lineMerger writes equal lines of several ranks once, behind the ranks that wrote them:
// "[0-3,7] text". It is a pure machine like lines.
//
//	rank 0   a b c        -->   [0-1] a
//	rank 1   a   c              [0] b
//	                            [0-1] c
//
// A line joins an equal one that waits, behind the last one of its rank, or is put right
// behind that. So the lines of each rank stay in order. A line is written when no rank can
// join it any more, or has done so for mergeTime.
type lineMerger struct {
	first        *mergedLine         // of those that wait
	lastLine     map[int]*mergedLine // the last line of each living rank; nil: it is written
	writtenRanks int                 // how many those are: whose next line may be the very first
	unfinished   map[int][]byte      // unfinished lines
	waitingBytes int                 // bytes that wait
	newLines     []*mergedLine       // since the last Tick
}

// A mergedLine is one line and who wrote it.
type mergedLine struct {
	text  []byte // with its newline
	ranks []int
	since time.Time // when it, or one that stands behind it, came; zero: since the last Tick
	next  *mergedLine
}

// newLineMerger returns a collapse for some ranks.
func newLineMerger(ranks []int) *lineMerger {
	c := &lineMerger{lastLine: make(map[int]*mergedLine), writtenRanks: len(ranks), unfinished: make(map[int][]byte)}
	for _, rank := range ranks {
		c.lastLine[rank] = nil
	}
	return c
}

// AddOutput takes a piece of a rank's output.
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

// finishLine takes what a rank has not finished for a line.
func (c *lineMerger) finishLine(out *writeBuffer, rank int) {
	if rest := c.unfinished[rank]; len(rest) > 0 {
		c.addLine(out, rank, append(rest, '\n'))
		delete(c.unfinished, rank)
	}
}

// addLine finds the line of a rank its place.
func (c *lineMerger) addLine(out *writeBuffer, rank int, text []byte) {
	last, living := c.lastLine[rank]
	place := &c.first
	if last != nil {
		place = &last.next
	} else if living {
		c.writtenRanks--
	}
	l := findEqualLine(*place, text)
	if l == nil || !living { // a leftover child of a rank that is over joins nobody
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

// findEqualLine looks for a text among the lines from one on.
func findEqualLine(from *mergedLine, text []byte) *mergedLine {
	for range mergeDepth {
		if from == nil || bytes.Equal(from.text, text) {
			return from
		}
		from = from.next
	}
	return nil
}

// writeFirst writes the line that stands first.
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

// WriteDue writes what waits for nobody, and what has waited long enough.
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

// RankEnded is the end of a rank: nobody waits for it any more.
func (c *lineMerger) RankEnded(out *writeBuffer, rank int) {
	c.finishLine(out, rank)
	if last, living := c.lastLine[rank]; living && last == nil {
		c.writtenRanks--
	}
	delete(c.lastLine, rank)
}

// WriteOwnLine writes a line of our own.
func (c *lineMerger) WriteOwnLine(out *writeBuffer, line []byte) { out.addCopy(line) }

// FlushAll writes all that waits.
func (c *lineMerger) FlushAll(out *writeBuffer) {
	for _, rank := range slices.Sorted(maps.Keys(c.unfinished)) {
		c.finishLine(out, rank)
	}
	for c.first != nil {
		c.writeFirst(out)
	}
}
