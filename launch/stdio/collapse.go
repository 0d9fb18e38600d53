package stdio

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"remshell/idset"
)

const (
	// mergeTime is how long a line waits for other ranks to write an equal one.
	mergeTime = time.Second

	// mergeRoom is how much waits at most, in bytes.
	mergeRoom = 1 << 20

	// mergeDepth is among how many lines that wait an equal one is looked for.
	mergeDepth = 1000
)

// A collapse writes equal lines of several ranks once, behind the ranks that wrote them:
// "[0-3,7] text". It is a pure machine like lines.
//
//	rank 0   a b c        -->   [0-1] a
//	rank 1   a   c              [0] b
//	                            [0-1] c
//
// A line joins an equal one that waits, behind the last one of its rank, or is put right
// behind that. So the lines of each rank stay in order. A line is written when no rank can
// join it any more, or has done so for mergeTime.
type collapse struct {
	first  *mergedLine         // of those that wait
	at     map[int]*mergedLine // the last line of each living rank; nil: it is written
	behind int                 // how many those are: whose next line may be the very first
	rest   map[int][]byte      // unfinished lines
	room   int                 // bytes that wait
	fresh  []*mergedLine       // since the last Tick
}

// A mergedLine is one line and who wrote it.
type mergedLine struct {
	text  []byte // with its newline
	ranks []int
	since time.Time // when it, or one that stands behind it, came; zero: since the last Tick
	next  *mergedLine
}

// newCollapse returns a collapse for some ranks.
func newCollapse(ranks []int) *collapse {
	c := &collapse{at: make(map[int]*mergedLine), behind: len(ranks), rest: make(map[int][]byte)}
	for _, rank := range ranks {
		c.at[rank] = nil
	}
	return c
}

// Add takes a piece of a rank's output.
func (c *collapse) Add(out *chunks, rank int, piece []byte) {
	for {
		end := bytes.IndexByte(piece, '\n') + 1
		if end == 0 {
			break
		}
		c.join(out, rank, append(c.rest[rank], piece[:end]...))
		delete(c.rest, rank)
		piece = piece[end:]
	}
	if len(piece) == 0 {
		return
	}
	c.rest[rank] = append(c.rest[rank], piece...)
	if len(c.rest[rank]) >= maxHeld {
		c.finish(out, rank)
	}
}

// finish takes what a rank has not finished for a line.
func (c *collapse) finish(out *chunks, rank int) {
	if rest := c.rest[rank]; len(rest) > 0 {
		c.join(out, rank, append(rest, '\n'))
		delete(c.rest, rank)
	}
}

// join finds the line of a rank its place.
func (c *collapse) join(out *chunks, rank int, text []byte) {
	last, living := c.at[rank]
	place := &c.first
	if last != nil {
		place = &last.next
	} else if living {
		c.behind--
	}
	l := equalLine(*place, text)
	if l == nil || !living { // a leftover child of a rank that is over joins nobody
		l = &mergedLine{text: text, next: *place}
		if l.next != nil {
			l.since = l.next.since
		}
		*place = l
		c.fresh = append(c.fresh, l)
		c.room += len(text)
	}
	l.ranks = append(l.ranks, rank)
	if living {
		c.at[rank] = l
	}
	for c.room > mergeRoom {
		c.write(out)
	}
}

// equalLine looks for a text among the lines from one on.
func equalLine(from *mergedLine, text []byte) *mergedLine {
	for range mergeDepth {
		if from == nil || bytes.Equal(from.text, text) {
			return from
		}
		from = from.next
	}
	return nil
}

// write writes the line that stands first.
func (c *collapse) write(out *chunks) {
	l := c.first
	for _, rank := range l.ranks {
		if at, living := c.at[rank]; living && at == l {
			c.at[rank] = nil
			c.behind++
		}
	}
	slices.Sort(l.ranks)
	out.copy([]byte("[" + idset.Text(l.ranks) + "] "))
	out.copy(l.text)
	c.room -= len(l.text)
	c.first = l.next
}

// Tick writes what waits for nobody, and what has waited long enough.
func (c *collapse) Tick(out *chunks, now time.Time) (time.Time, error) {
	for _, l := range c.fresh {
		if l.since.IsZero() {
			l.since = now
		}
	}
	c.fresh = nil
	for c.first != nil {
		if due := c.first.since.Add(mergeTime); c.behind > 0 && now.Before(due) {
			return due, nil
		}
		c.write(out)
	}
	return time.Time{}, nil
}

// End is the end of a rank: nobody waits for it any more.
func (c *collapse) End(out *chunks, rank int) {
	c.finish(out, rank)
	if last, living := c.at[rank]; living && last == nil {
		c.behind--
	}
	delete(c.at, rank)
}

// Ours writes a line of our own.
func (c *collapse) Ours(out *chunks, line []byte) { out.copy(line) }

// Flush writes all that waits.
func (c *collapse) Flush(out *chunks) {
	for _, rank := range slices.Sorted(maps.Keys(c.rest)) {
		c.finish(out, rank)
	}
	for c.first != nil {
		c.write(out)
	}
}
