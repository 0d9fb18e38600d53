package plan

import (
	"fmt"
	"strings"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
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

	alone bool          // the text tells of all rejected nodes
	never string        // the text, if it is permanent; empty: the same
	Left  time.Duration // of a delay: it is tried again after that, and then takes what there is

	At *hostlist.SyntaxError // where the request says so; nil: nowhere in particular
}

// Error is the text or, if a line of the user's is at fault, that line as well.
func (e *Error) Error() string {
	if e.At == nil {
		return e.Text
	}
	return e.At.Error()
}

// Hint is what to do about it.
func (e *Error) Hint() string { return e.Way }

// Reasons tells why nodes were not used, a line for each reason.
func (e *Error) Reasons() []string {
	if e.At != nil {
		return nil
	}
	return Folded(e.Rejected)
}

// Codes of errors and notes.
const (
	NotEnough = "not-enough-cpus"
	NoNodes   = "no-candidates"
	Limits    = "limit-reached"
	QueueBusy = "queue-busy"
	BadSort   = "bad-sort"
	NoGPU     = "not-enough-gpus"
	NoSet     = "no-node-set"

	NotContiguous = "no-contiguous"
	Delayed       = "nodeset-delay"

	Overbook    = "overbooked"
	SameNode    = "same-node"
	MapDenied   = "cpumap-not-allowed"
	MapTooLarge = "cpumap-out-of-range"
	Claimed     = "granted-and-claimed" // by jobs outside of our batch system's job
)

// Folded says equal reasons once: "n[3-42]: all 4 CPUs are in use".
func Folded(rejected []job.Note) []string {
	var lines []string
	for _, g := range text.Groups(rejected, func(r job.Note) (reason, node string) { return inWords(r.Code, r.Text), r.Node }) {
		lines = append(lines, hostlist.Brief(g.Names)+": "+g.Common)
	}
	return lines
}

// inWords is a reason as people read it: the text of most says all.
func inWords(code, text string) string {
	if text == notAsked {
		return "it was " + text
	}
	return map[string]string{"unreachable": "unreachable: ", "not-idle": "not idle: ", "region": "region "}[code] + text
}

// sameMachine is the notice of HOST-8.
func sameMachine(names []string) job.Note {
	who := strings.Join(names, " and ")
	if len(names) > 2 {
		who = hostlist.Brief(names)
	}
	return job.Note{Code: SameNode, Node: names[0], Text: fmt.Sprintf("%s are one machine; it counts once, as %s", who, names[0])}
}
