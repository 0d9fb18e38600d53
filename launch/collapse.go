package launch

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"remshell/pin"
)

const (
	// mergeTime is how long a line waits for other ranks to write an equal one.
	mergeTime = 250 * time.Millisecond

	// mergeRoom is how much waits at most, in bytes.
	mergeRoom = 1 << 20
)

// Collapse writes equal lines of several ranks once, behind the ranks that wrote them:
// "[0-3,7] text". It is a pure machine like Lines.
//
//	rank 0   a b c        -->   [0-1] a
//	rank 1   a   c              [0] b
//	                            [0-1] c
//
// A line joins an equal one that waits, if its rank has written nothing behind that. So
// the lines of each rank stay in order. A line is written when no rank can join it any
// more, or has done so for mergeTime.
type Collapse struct {
	line  []mergedLine     // that wait, in the order in which they will be written
	base  int              // number of line[0]; lines count from 0
	equal map[string][]int // numbers of those with a text
	past  map[int]int      // number behind the last line of each living rank
	rest  map[int][]byte   // unfinished lines
	room  int              // bytes in line
	news  int              // number of the first line since the last Tick
}

// A mergedLine is one line and who wrote it.
type mergedLine struct {
	text  []byte // with its newline
	ranks []int
	since time.Time // of the first; zero until the next Tick
}

// NewCollapse returns a Collapse for some ranks.
func NewCollapse(ranks []int) *Collapse {
	c := &Collapse{equal: make(map[string][]int), past: make(map[int]int), rest: make(map[int][]byte)}
	for _, rank := range ranks {
		c.past[rank] = 0
	}
	return c
}

// Add takes a piece of a rank's output.
func (c *Collapse) Add(out *chunks, rank int, piece []byte) {
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
func (c *Collapse) finish(out *chunks, rank int) {
	if rest := c.rest[rank]; len(rest) > 0 {
		c.join(out, rank, append(rest, '\n'))
		delete(c.rest, rank)
	}
}

// join finds the line of a rank its place.
func (c *Collapse) join(out *chunks, rank int, text []byte) {
	for _, number := range c.equal[string(text)] {
		if number >= c.past[rank] {
			l := &c.line[number-c.base]
			l.ranks = append(l.ranks, rank)
			c.past[rank] = number + 1
			return
		}
	}
	number := c.base + len(c.line)
	c.line = append(c.line, mergedLine{text: text, ranks: []int{rank}})
	c.equal[string(text)] = append(c.equal[string(text)], number)
	c.past[rank] = number + 1
	for c.room += len(text); c.room > mergeRoom; {
		c.first(out)
	}
}

// first writes the line that waits longest.
func (c *Collapse) first(out *chunks) {
	l := c.line[0]
	slices.Sort(l.ranks)
	out.copy([]byte("[" + pin.Text(l.ranks) + "] "))
	out.copy(l.text)
	if c.equal[string(l.text)] = c.equal[string(l.text)][1:]; len(c.equal[string(l.text)]) == 0 {
		delete(c.equal, string(l.text))
	}
	c.room -= len(l.text)
	c.line = c.line[1:]
	c.base++
}

// Tick writes what waits for nobody, and what has waited long enough.
func (c *Collapse) Tick(out *chunks, now time.Time) (time.Time, error) {
	for i := max(0, c.news-c.base); i < len(c.line); i++ {
		c.line[i].since = now
	}
	c.news = c.base + len(c.line)
	passed := c.news // by all
	for _, past := range c.past {
		passed = min(passed, past)
	}
	for len(c.line) > 0 {
		due := c.line[0].since.Add(mergeTime)
		if c.base >= passed && now.Before(due) {
			return due, nil
		}
		c.first(out)
	}
	return time.Time{}, nil
}

// End is the end of a rank: nobody waits for it any more.
func (c *Collapse) End(out *chunks, rank int) {
	c.finish(out, rank)
	delete(c.past, rank)
}

// Ours writes a line of our own.
func (c *Collapse) Ours(out *chunks, line []byte) { out.copy(line) }

// Flush writes all that waits.
func (c *Collapse) Flush(out *chunks) {
	for _, rank := range slices.Sorted(maps.Keys(c.rest)) {
		c.finish(out, rank)
	}
	for len(c.line) > 0 {
		c.first(out)
	}
}
