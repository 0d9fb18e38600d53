// Package pattern makes labels of lines and names of files of what a user has written with
// percent signs: out.%r. It is pure: who a rank is, and when, is told.
package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Pattern makes labels and names of files (cli.md IO-13, -prepend-pattern):
//
//	%r rank   %R rank, zero-padded   %l local rank   %n %p node, helper: its index
//	%h host   %g group   %s stream   %j job   %a attempt   %t seconds since the start   %%
//
// and in labels only, which are made when there is something to label:
//
//	%T wall clock   %P process ID
//
// The ranks of the command line are group 0, those that were spawned 1 and so on. Of these
// %r tells both, "1:0", unless %g stands beside it.
type Pattern []token

// A token is text, or with verb what that stands for.
type token struct {
	text string
	verb byte
}

const (
	fileVerbs  = "rRlnphgsjat"
	labelVerbs = fileVerbs + "TP"
)

// ParseLabel reads the pattern of a label.
func ParseLabel(text string) (Pattern, error) { return parsePattern(text, labelVerbs) }

// ParseFile reads the pattern of the name of a file.
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
			return nil, fmt.Errorf("%q ends with %%; a percent sign is %%%%", text)
		case after[0] == '%':
			p = append(p, token{text: "%"})
		case strings.IndexByte(verbs, after[0]) < 0:
			known := "%" + strings.Join(strings.Split(verbs, ""), " %")
			return nil, fmt.Errorf("%q: there is no %%%c here; allowed: %s %%%%", text, after[0], known)
		default:
			p = append(p, token{verb: after[0]})
		}
		rest = after[1:]
	}
	return p, nil
}

// HasVerb reports whether one of the verbs is in a pattern.
func (p Pattern) HasVerb(verbs string) bool {
	for _, x := range p {
		if x.verb != 0 && strings.IndexByte(verbs, x.verb) >= 0 {
			return true
		}
	}
	return false
}

// A RankInfo is what patterns can tell of one output stream of a rank.
type RankInfo struct {
	Number            int // in the job; all else that takes a rank here takes this one
	Rank, Size, Group int // the group of those of the command line is 0; its rank there, and its size
	Local             int // among those of its node
	Node              int // index of its node in the plan
	Attempt           int // of the job
	PID               int // 0: not known yet
	Host, Job, Stream string
	Began             time.Time // when the job did
}

// DisplayName is how messages call a rank: of those that were spawned with the number of their group.
func (w RankInfo) DisplayName() string { return string(Pattern{{verb: 'r'}}.Append(nil, w, w.Began)) }

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// Append appends what the pattern makes.
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

// group appends the group of a rank that was spawned, if the pattern does not tell it
// otherwise: ranks of two groups have one number.
func (p Pattern) group(out []byte, w RankInfo) []byte {
	if w.Group == 0 || p.HasVerb("g") {
		return out
	}
	return append(strconv.AppendInt(out, int64(w.Group), 10), ':')
}
