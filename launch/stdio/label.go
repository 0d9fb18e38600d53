package stdio

import (
	"fmt"
	"slices"
	"time"

	"remshell/launch/stdio/pattern"
)

// A labelMaker creates the labels that -label puts before lines of output. It caches labels that do not change.
type labelMaker struct {
	pattern  pattern.Pattern
	stream   string
	changing bool               // labels contain a time or a process ID
	color    bool               // labels are coloured by rank
	ranks    []pattern.RankInfo // by rank, of all groups; nil: there are no labels
	pids     map[int]int        // by rank, if known and needed
	made     [][]byte
	buf      []byte
}

func newLabelMaker(text, stream string, ranks GroupRanks) (*labelMaker, error) {
	p, err := pattern.ParseLabel(text)
	l := &labelMaker{pattern: p, stream: stream, changing: p.HasVerb("tTP"), pids: make(map[int]int)}
	l.addRanks(ranks)
	return l, err
}

// addRanks makes it possible to create labels for the ranks of a further group.
func (l *labelMaker) addRanks(ranks GroupRanks) {
	switch {
	case len(l.pattern) == 0: // saves memory in large jobs
		return
	case l.ranks == nil:
		l.ranks = slices.Clip(ranks.PatternRanks())
	default:
		l.ranks = append(l.ranks, ranks.PatternRanks()...)
	}
	l.made = append(l.made, make([][]byte, ranks.Size)...)
}

// labelFunc returns a function that returns the label of a rank. It returns nil if lines are not labelled.
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

// colors is the number of terminal colours that labels use. All are readable on dark and light backgrounds.
// Red is not used, because it marks errors.
const colors = 5

// appendLabel appends the label of a rank to out. now is the time that labels may show.
func (l *labelMaker) appendLabel(out []byte, rank int, now time.Time) []byte {
	info := l.ranks[rank]
	info.Stream, info.PID = l.stream, l.pids[rank]
	if !l.color {
		return l.pattern.Append(out, info, now)
	}
	out = fmt.Appendf(out, "\x1b[%dm", 32+rank%colors)
	out = l.pattern.Append(out, info, now)
	return append(out, "\x1b[0m"...)
}
