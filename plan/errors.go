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
	Code          string
	Text          string
	Remedy        string     // what the user can do
	Permanent     bool       // waiting cannot help (6.2)
	QueuePosition int        // in the queue, from 1, if the request is to wait there; else 0
	WantedRanks   int        // ranks, where it is about room; else 0
	FreeRanks     int        // ranks there is room for
	Rejected      []job.Note // the nodes that cannot be used now

	textNamesRejected bool          // the text tells of all rejected nodes
	permanentText     string        // the text, if it is permanent; empty: the same
	DelayLeft         time.Duration // of a delay: it is tried again after that, and then takes what there is

	InputError *hostlist.SyntaxError // where the request says so; nil: nowhere in particular
}

// Error is the text or, if a line of the user's is at fault, that line as well.
func (e *Error) Error() string {
	if e.InputError == nil {
		return e.Text
	}
	return e.InputError.Error()
}

// Hint is what to do about it.
func (e *Error) Hint() string { return e.Remedy }

// Reasons tells why nodes were not used, a line for each reason.
func (e *Error) Reasons() []string {
	if e.InputError != nil {
		return nil
	}
	return FoldReasons(e.Rejected)
}

// Codes of errors and notes.
const (
	CodeNotEnough = "not-enough-cpus"
	CodeNoNodes   = "no-candidates"
	CodeLimits    = "limit-reached"
	CodeQueueBusy = "queue-busy"
	CodeBadSort   = "bad-sort"
	CodeNoGPU     = "not-enough-gpus"
	CodeNoSet     = "no-node-set"

	CodeNotContiguous = "no-contiguous"
	CodeDelayed       = "nodeset-delay"

	CodeOverbook    = "overbooked"
	CodeSameNode    = "same-node"
	CodeMapDenied   = "cpumap-not-allowed"
	CodeMapTooLarge = "cpumap-out-of-range"
	CodeClaimed     = "granted-and-claimed" // by jobs outside of our batch system's job
)

// FoldReasons says equal reasons once: "n[3-42]: all 4 CPUs are in use".
func FoldReasons(rejected []job.Note) []string {
	var lines []string
	for _, g := range text.Groups(rejected, func(r job.Note) (reason, node string) { return reasonText(r.Code, r.Text), r.Node }) {
		lines = append(lines, hostlist.FoldBrief(g.Names)+": "+g.Common)
	}
	return lines
}

// reasonText is a reason as people read it: the text of most says all.
func reasonText(code, text string) string {
	if text == notProbed {
		return "it was " + text
	}
	return map[string]string{"unreachable": "unreachable: ", "not-idle": "not idle: ", "region": "region "}[code] + text
}

// sameMachineNote is the notice of HOST-8.
func sameMachineNote(names []string) job.Note {
	who := strings.Join(names, " and ")
	if len(names) > 2 {
		who = hostlist.FoldBrief(names)
	}
	return job.Note{Code: CodeSameNode, Node: names[0], Text: fmt.Sprintf("%s are one machine; it counts once, as %s", who, names[0])}
}
