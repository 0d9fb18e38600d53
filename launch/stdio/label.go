package stdio

import (
	"fmt"
	"slices"
	"time"

	"remshell/launch/stdio/pattern"
)

// labelMaker makes the labels of a pattern. One that does not change is made once.
type labelMaker struct {
	pattern  pattern.Pattern
	stream   string
	changing bool               // labels change
	color    bool               // they have the color of their rank
	ranks    []pattern.RankInfo // that of the other stream, too; nil: nobody has a label
	pids     map[int]int        // of ranks, as far as they are known and wanted
	made     [][]byte
	buf      []byte
}

func newLabelMaker(text, stream string, who GroupRanks) (*labelMaker, error) {
	p, err := pattern.ParseLabel(text)
	l := &labelMaker{pattern: p, stream: stream, changing: p.HasVerb("tTP"), pids: make(map[int]int)}
	l.addRanks(who)
	return l, err
}

// addRanks takes in further ranks.
func (l *labelMaker) addRanks(who GroupRanks) {
	switch {
	case len(l.pattern) == 0: // a large job need not keep what it never tells
		return
	case l.ranks == nil:
		l.ranks = slices.Clip(who.PatternRanks())
	default:
		l.ranks = append(l.ranks, who.PatternRanks()...)
	}
	l.made = append(l.made, make([][]byte, who.Size)...)
}

// labelFunc returns what makes the label of a rank; nil: there are none.
func (l *labelMaker) labelFunc() func(rank int) []byte {
	if len(l.pattern) == 0 {
		return nil
	}
	return func(rank int) []byte {
		if l.changing {
			l.buf = l.appendLabel(l.buf[:0], rank, time.Now())
			return l.buf
		}
		if l.made[rank] == nil {
			l.made[rank] = l.appendLabel(nil, rank, time.Time{})
		}
		return l.made[rank]
	}
}

// colors of a terminal that can be told apart on dark and light ground, red being kept for
// what is wrong.
const colors = 5

// appendLabel appends the label of a rank.
func (l *labelMaker) appendLabel(out []byte, rank int, now time.Time) []byte {
	who := l.ranks[rank]
	who.Stream, who.PID = l.stream, l.pids[rank]
	if !l.color {
		return l.pattern.Append(out, who, now)
	}
	out = fmt.Appendf(out, "\x1b[%dm", 32+rank%colors)
	out = l.pattern.Append(out, who, now)
	return append(out, "\x1b[0m"...)
}
