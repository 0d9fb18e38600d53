package trace

import "strings"

// The steps of a start, and what comes after it. sshx and reach, which import nothing of ours, have words of their own for
// those of the way to a host; their tests ask Knows.
const (
	Request = "request" // mpiexec reads what is wanted: arguments, files, variables

	Reach          = "reach" // all of the way to one host, with the greeting
	Pause          = "pause" // a server was busy, or another attempt of the job waits
	WaitForPermit  = "turn"  // for a place among the connections that are set up at once
	Jump           = "jump"  // until the jump host is there
	Resolve        = "resolve"
	Connect        = "connect" // of one host: TCP; of mpiexec: all hosts
	KeyExchange    = "key exchange"
	Authentication = "authentication"
	Session        = "session"
	Shell          = "shell" // until /bin/sh there has answered; by a program: with all that is before
	Delivery       = "delivery"
	Helper         = "helper" // until its first byte
	Greeting       = "greeting"

	Queue        = "queue" // waiting for room
	DecisionLock = "gate"
	Survey       = "survey"
	Plan         = "plan"
	Claim        = "claim"
	Stage        = "stage"

	Start      = "start"       // from the word to start until all ranks run
	FirstFence = "first fence" // from there until the host, or all of them, has come to it
	Run        = "run"         // from the word to start until the last rank has ended; of a rank: its life
	End        = "end"         // from there until all is drained
	Output     = "output"      // until our standard output has taken the rest

	Job     = "job"     // all of it, from the first connection on
	Attempt = "attempt" // likewise, of one that may be started again; its number follows
	Fence   = "fence"   // until nothing of the last attempt can live
)

// A stepInfo is what is known of a step.
type stepInfo struct {
	step             string
	color            string // in a picture
	countsForSlowest bool   // it makes a start slow, and is a host's own: not the wait for its turn
}

// stepInfos are all steps, in the order in which a picture tells of them.
var stepInfos = []stepInfo{
	{Request, "#9e9e9e", false},
	{Reach, "#e4e4e4", true},
	{WaitForPermit, "#cfcfcf", false},
	{Pause, "#bdbdbd", false},
	{Jump, "#8d6e63", true},
	{Resolve, "#795548", true},
	{Connect, "#4a78b5", true},
	{KeyExchange, "#7e57c2", true},
	{Authentication, "#b04a9a", true},
	{Session, "#5c9bd1", true},
	{Shell, "#3aa6a6", true},
	{Delivery, "#e08a1e", true},
	{Helper, "#26867a", true},
	{Greeting, "#7cb342", true},
	{Queue, "#cfcfcf", false},
	{DecisionLock, "#a1887f", true},
	{Survey, "#c0a93d", true},
	{Plan, "#6d7f8b", false},
	{Claim, "#d4a017", true},
	{Stage, "#e7a95c", true},
	{Start, "#2e9e4f", true},
	{FirstFence, "#1565a8", true},
	{Run, "#cfe8d3", false},
	{End, "#78909c", false},
	{Output, "#90a4ae", false},
	{Fence, "#b0a5a0", false},
	{Job, "#f1f1f1", false},
	{Attempt, "#f1f1f1", false},
}

// infoOf finds what is known of a step; nil: nothing is.
func infoOf(step string) *stepInfo {
	if strings.HasPrefix(step, Attempt+" ") {
		step = Attempt
	}
	for i := range stepInfos {
		if stepInfos[i].step == step {
			return &stepInfos[i]
		}
	}
	return nil
}

// IsKnownStep reports whether a step is one of those above.
func IsKnownStep(step string) bool { return infoOf(step) != nil }
