package plan

import (
	"fmt"
	"strings"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// An Error says why no plan can be made. Code is one of the codes in placement.md 1.5.
type Error struct {
	Code          string
	Text          string
	Remedy        string     // what the user can do; empty if nothing
	Permanent     bool       // waiting cannot help (6.2)
	QueuePosition int        // position in the queue, from 1, if the request must wait in it; else 0
	WantedRanks   int        // number of requested ranks, if there is too little capacity; else 0
	FreeRanks     int        // number of ranks that fit
	Rejected      []job.Note // the nodes that cannot be used now

	textNamesRejected bool          // Text already names all rejected nodes
	permanentText     string        // the text if the error is permanent; if empty, Text
	DelayLeft         time.Duration // the rest of the node-set delay; after it the job takes any nodes

	InputError *hostlist.SyntaxError // the place in the user's input; nil if no place is to blame
}

// Error returns the text of the error. If a line of the user's input is wrong, the text includes that line.
func (e *Error) Error() string {
	if e.InputError == nil {
		return e.Text
	}
	return e.InputError.Error()
}

// Hint returns what the user can do about the error.
func (e *Error) Hint() string { return e.Remedy }

// Reasons returns the reasons why nodes are not used, one line for each.
func (e *Error) Reasons() []string {
	if e.InputError != nil {
		return nil
	}
	return FoldReasons(e.Rejected)
}

// These are the codes of errors and notes. Programs find them in the JSON output.
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
	CodeGang          = "gang-terms"

	CodeOverbook    = "overbooked"
	CodeSameNode    = "same-node"
	CodeMapDenied   = "cpumap-not-allowed"
	CodeMapTooLarge = "cpumap-out-of-range"
	CodeClaimed     = "granted-and-claimed" // by jobs outside this batch job
)

// FoldReasons returns one line for each reason, with the names of all hosts that were rejected for that reason:
// "n[3-42]: all 4 CPUs are in use".
func FoldReasons(rejected []job.Note) []string {
	var lines []string
	for _, g := range text.Groups(rejected, func(r job.Note) (reason, node string) { return reasonText(r.Code, r.Text), r.Node }) {
		lines = append(lines, hostlist.FoldBrief(g.Names)+": "+g.Common)
	}
	return lines
}

// reasonText returns a reason as text for the user. Most texts are clear by themselves; reasonText adds a few words to
// the others.
func reasonText(code, text string) string {
	if text == notProbed {
		return "it was " + text
	}
	return map[string]string{"unreachable": "unreachable: ", "not-idle": "not idle: "}[code] + text
}

// sameMachineNote returns a note saying that several names belong to one machine (rule HOST-8).
func sameMachineNote(names []string) job.Note {
	hosts := strings.Join(names, " and ")
	if len(names) > 2 {
		hosts = hostlist.FoldBrief(names)
	}
	return job.Note{Code: CodeSameNode, Node: names[0], Text: fmt.Sprintf("%s are the same machine; mpiexec uses it once, as %s", hosts, names[0])}
}
