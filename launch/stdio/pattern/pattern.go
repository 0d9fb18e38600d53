// Package pattern builds labels of output lines, and names of output files, from patterns with percent verbs such as
// out.%r. It performs no I/O: the caller passes the rank and the time.
package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Pattern describes labels or file names (cli.md IO-13, -prepend-pattern):
//
//	%r rank   %R rank, zero-padded   %l local rank   %n %p node's index
//	%h host   %g group   %s stream   %j job   %a attempt   %t seconds since the start   %%
//
// Labels, which are built at the time of the output, have two more verbs:
//
//	%T wall clock   %P process ID
//
// The ranks of the command line are group 0. Spawned groups are numbered from 1. For a spawned rank, %r and %R
// include the group, as in "1:0", unless the pattern has %g.
type Pattern []token

// A token is a part of a Pattern: literal text, or, if verb is not 0, a percent verb.
type token struct {
	text string
	verb byte
}

const (
	fileVerbs  = "rRlnphgsjat"
	labelVerbs = fileVerbs + "TP"
)

// ParseLabel parses the pattern of a label.
func ParseLabel(text string) (Pattern, error) { return parsePattern(text, labelVerbs) }

// ParseFile parses the pattern of a file name.
func ParseFile(text string) (Pattern, error) { return parsePattern(text, fileVerbs) }

func parsePattern(text, verbs string) (p Pattern, err error) {
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "%")
		if literal != "" {
			p = append(p, token{text: literal})
		}
		if !found {
			break
		}
		switch {
		case after == "":
			return nil, fmt.Errorf("%q ends with %%; write a percent sign as %%%%", text)
		case after[0] == '%':
			p = append(p, token{text: "%"})
		case strings.IndexByte(verbs, after[0]) < 0:
			known := "%" + strings.Join(strings.Split(verbs, ""), " %")
			return nil, fmt.Errorf("%q: %%%c is not allowed here; allowed: %s %%%%", text, after[0], known)
		default:
			p = append(p, token{verb: after[0]})
		}
		rest = after[1:]
	}
	return p, nil
}

// HasVerb reports whether the pattern has at least one of the given percent verbs. verbs contains their letters.
func (p Pattern) HasVerb(verbs string) bool {
	for _, x := range p {
		if x.verb != 0 && strings.IndexByte(verbs, x.verb) >= 0 {
			return true
		}
	}
	return false
}

// A RankInfo contains the values of all percent verbs for one output stream of a rank.
type RankInfo struct {
	Number            int // rank's number in the job
	Rank, Size, Group int // rank's number in its group, the group's size, and the group (0: command line)
	Local             int // rank's number on its node
	Node              int // index of its node in the plan
	Attempt           int // number of the job's attempt
	PID               int // 0: not known yet
	Host, Job, Stream string
	Began             time.Time // start of the job
}

// DisplayName returns the text that names the rank in messages: "3", or "1:0" in a spawned group.
func (w RankInfo) DisplayName() string { return string(Pattern{{verb: 'r'}}.Append(nil, w, w.Began)) }

// timeFormat is the format of the verb %T: RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// Append appends to out the label or file name for a rank.
func (p Pattern) Append(out []byte, w RankInfo, now time.Time) []byte {
	for _, x := range p {
		switch x.verb {
		case 0:
			out = append(out, x.text...)
		case 'r':
			out = append(p.group(out, w), strconv.Itoa(w.Rank)...)
		case 'R':
			out = fmt.Appendf(p.group(out, w), "%0*d", len(strconv.Itoa(w.Size-1)), w.Rank)
		case 'l':
			out = strconv.AppendInt(out, int64(w.Local), 10)
		case 'n', 'p':
			out = strconv.AppendInt(out, int64(w.Node), 10)
		case 'P':
			out = strconv.AppendInt(out, int64(w.PID), 10)
		case 'g':
			out = strconv.AppendInt(out, int64(w.Group), 10)
		case 'h':
			out = append(out, w.Host...)
		case 's':
			out = append(out, w.Stream...)
		case 'j':
			out = append(out, w.Job...)
		case 'a':
			out = strconv.AppendInt(out, int64(w.Attempt), 10)
		case 't':
			out = strconv.AppendFloat(out, now.Sub(w.Began).Seconds(), 'f', 3, 64)
		case 'T':
			out = now.AppendFormat(out, timeFormat)
		}
	}
	return out
}

// group appends the group of a spawned rank and a colon, unless the pattern has the verb %g. Otherwise ranks of
// two groups could have the same label.
func (p Pattern) group(out []byte, w RankInfo) []byte {
	if w.Group == 0 || p.HasVerb("g") {
		return out
	}
	return append(strconv.AppendInt(out, int64(w.Group), 10), ':')
}
