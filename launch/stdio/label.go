package stdio

import (
	"fmt"
	"slices"
	"time"

	"remshell/launch/stdio/pattern"
)

// labels makes the labels of a pattern. One that does not change is made once.
type labels struct {
	pattern pattern.Pattern
	stream  string
	moving  bool           // labels change
	color   bool           // they have the color of their rank
	who     []pattern.Rank // that of the other stream, too; nil: nobody has a label
	pids    map[int]int    // of ranks, as far as they are known and wanted
	made    [][]byte
	own     []byte
}

func newLabels(text, stream string, who Ranks) (*labels, error) {
	p, err := pattern.ParseLabel(text)
	l := &labels{pattern: p, stream: stream, moving: p.Has("tTP"), pids: make(map[int]int)}
	l.grow(who)
	return l, err
}

// grow takes in further ranks.
func (l *labels) grow(who Ranks) {
	switch {
	case len(l.pattern) == 0: // a large job need not keep what it never tells
		return
	case l.who == nil:
		l.who = slices.Clip(who.Who())
	default:
		l.who = append(l.who, who.Who()...)
	}
	l.made = append(l.made, make([][]byte, who.Size)...)
}

// of returns what makes the label of a rank; nil: there are none.
func (l *labels) of() func(rank int) []byte {
	if len(l.pattern) == 0 {
		return nil
	}
	return func(rank int) []byte {
		if l.moving {
			l.own = l.make(l.own[:0], rank, time.Now())
			return l.own
		}
		if l.made[rank] == nil {
			l.made[rank] = l.make(nil, rank, time.Time{})
		}
		return l.made[rank]
	}
}

// colors of a terminal that can be told apart on dark and light ground, red being kept for
// what is wrong.
const colors = 5

// make appends the label of a rank.
func (l *labels) make(out []byte, rank int, now time.Time) []byte {
	who := l.who[rank]
	who.Stream, who.PID = l.stream, l.pids[rank]
	if !l.color {
		return l.pattern.Append(out, who, now)
	}
	out = fmt.Appendf(out, "\x1b[%dm", 32+rank%colors)
	out = l.pattern.Append(out, who, now)
	return append(out, "\x1b[0m"...)
}
