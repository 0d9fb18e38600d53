package plan

import (
	"fmt"
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// An Error says why there is no plan. Its code is one of placement.md 1.5.
type Error struct {
	Code      string
	Text      string
	Way       string     // what the user can do
	Permanent bool       // waiting cannot help (6.2)
	Position  int        // in the queue, from 1, if the request is to wait there; else 0
	Wanted    int        // ranks, where it is about room; else 0
	Free      int        // ranks there is room for
	Rejected  []job.Note // the nodes that cannot be used now

	alone bool // the text tells of all rejected nodes

	At *hostlist.SyntaxError // where the request says so; nil: nowhere in particular
}

// Error is the text or, if a line of the user's is at fault, that line as well.
func (e *Error) Error() string {
	if e.At == nil {
		return e.Text
	}
	at := *e.At
	if e.Way != "" {
		at.Reason += "; " + e.Way
	}
	return at.Error()
}

// Hint is what to do about it, and which nodes were left out of account.
func (e *Error) Hint() string {
	if e.At != nil {
		return "" // told with the line
	}
	hint := e.Way
	for _, line := range Folded(e.Rejected) {
		hint += "\n  not used: " + line
	}
	return hint
}

// Codes of errors and notes.
const (
	NotEnough = "not-enough-cpus"
	NoNodes   = "no-candidates"
	Limits    = "limit-reached"
	QueueBusy = "queue-busy"
	BadSort   = "bad-sort"
	NoGPU     = "not-enough-gpus"

	Overbook    = "overbooked"
	SameNode    = "same-node"
	MapDenied   = "cpumap-not-allowed"
	MapTooLarge = "cpumap-out-of-range"
)

// Folded says equal reasons once: "n[3-42]: cpus-full (0 of 4 CPUs free)".
func Folded(rejected []job.Note) []string {
	type reason struct{ code, text string }
	nodes := make(map[reason][]string)
	var order []reason
	for _, r := range rejected {
		why := reason{r.Code, r.Text}
		if nodes[why] == nil {
			order = append(order, why)
		}
		nodes[why] = append(nodes[why], r.Node)
	}
	var lines []string
	for _, why := range order {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", hostlist.Fold(nodes[why]), why.code, why.text))
	}
	return lines
}

// sameMachine is the notice of HOST-8.
func sameMachine(names []string) job.Note {
	who := strings.Join(names, " and ")
	if len(names) > 2 {
		who = hostlist.Fold(names)
	}
	return job.Note{Code: SameNode, Node: names[0], Text: fmt.Sprintf("%s are one machine; it counts once, as %s", who, names[0])}
}
