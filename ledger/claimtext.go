package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"remshell/job"
)

// This file writes a claim as encoding/json would (a test compares them). That package first looks at what a claim is made of, for
// a fifth of a millisecond of CPU on each host, and a helper writes one in its life.

// A claimWriter has the object of JSON that a claim becomes, as far as it is written.
type claimWriter struct{ text []byte }

// text is the claim as a file has it.
func (c claimText) text() ([]byte, error) {
	since, err := c.Since.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("since: %w", err)
	}
	l := claimWriter{make([]byte, 0, 512)}
	l.word("file", c.File)
	l.word("job", string(c.Job))
	l.wordIfAny("inside", string(c.Inside))
	l.number("uid", c.UID)
	l.word("user", c.User)
	l.word("from", c.From)
	l.word("node", c.Node)
	l.number("nodes", c.Nodes)
	l.number("size", c.Size)
	l.ranks("ranks", c.Ranks)
	l.flag("exclusive", c.Exclusive)
	l.name("since")
	l.text = append(l.text, since...)
	l.word("command", c.Command)
	l.wordIfAny("rm", c.RM)
	l.wordIfAny("class", c.Class)
	l.wordIfAny("node_set", c.NodeSet)
	l.numberIfAny("depth", c.Depth)
	l.numberIfAny("shape", c.Shape)
	l.numberIfAny("pid", c.PID)
	l.flag("movable", c.Movable)
	l.wordIfAny("idle", string(c.Resting))
	l.flag("suspended", c.Suspended)
	l.wordIfAny("preemptible", string(c.Preemptible))
	return append(l.text, '}'), nil
}

// name begins a member.
func (l *claimWriter) name(name string) {
	l.text = append(l.text, "{,"[min(1, len(l.text))], '"')
	l.text = append(append(l.text, name...), '"', ':')
}

func (l *claimWriter) word(name, value string) {
	l.name(name)
	l.text = appendWord(l.text, value)
}

func (l *claimWriter) wordIfAny(name, value string) {
	if value != "" {
		l.word(name, value)
	}
}

func (l *claimWriter) number(name string, value int) {
	l.name(name)
	l.text = strconv.AppendInt(l.text, int64(value), 10)
}

func (l *claimWriter) numberIfAny(name string, value int) {
	if value != 0 {
		l.number(name, value)
	}
}

func (l *claimWriter) flag(name string, set bool) {
	if set {
		l.name(name)
		l.text = append(l.text, "true"...)
	}
}

func (l *claimWriter) ranks(name string, ranks []job.ClaimedRank) {
	l.name(name)
	l.text = appendList(l.text, ranks, func(text []byte, r job.ClaimedRank) []byte {
		text = strconv.AppendInt(append(text, `{"rank":`...), int64(r.Rank), 10)
		text = appendList(append(text, `,"cpus":`...), r.CPUs, func(text []byte, cpu int) []byte { return strconv.AppendInt(text, int64(cpu), 10) })
		if len(r.GPUs) > 0 {
			text = appendList(append(text, `,"gpus":`...), r.GPUs, appendWord)
		}
		return append(text, '}')
	})
}

// appendList is null for a list that there is not, as in encoding/json.
func appendList[T any](text []byte, list []T, one func([]byte, T) []byte) []byte {
	if list == nil {
		return append(text, "null"...)
	}
	text = append(text, '[')
	for i, e := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = one(text, e)
	}
	return append(text, ']')
}

// appendWord leaves to encoding/json what has to be written in another way than it is.
func appendWord(text []byte, word string) []byte {
	if slices.ContainsFunc([]byte(word), func(c byte) bool {
		return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
	}) {
		quoted, _ := json.Marshal(word) // fails for no string
		return append(text, quoted...)
	}
	return append(append(append(text, '"'), word...), '"')
}
