package trace

import "strings"

// These are the names of the steps of a run. sshx and transport, which do not import this package, use the same
// names for the steps of connecting to a host. The tests of these packages check the names with IsKnownStep.
const (
	Request = "request" // mpiexec reads arguments, files and variables

	Reach          = "reach"           // reaching one host, from connecting until the helper has sent its greeting
	Pause          = "pause"           // before a busy server is tried again, or before another attempt of the job
	WaitForPermit  = "wait to connect" // waiting because too many connections are being set up at once
	Jump           = "jump"            // connecting to the jump host
	Resolve        = "resolve"
	Connect        = "connect" // in a host's row: TCP; in mpiexec's row: reaching all hosts
	KeyExchange    = "key exchange"
	Authentication = "authentication"
	Session        = "session"
	Shell          = "shell" // until /bin/sh has answered; with a program such as rsh, all steps before it too
	Delivery       = "delivery"
	Helper         = "helper" // until the first byte of the helper
	Greeting       = "greeting"

	Queue        = "queue" // waiting until the ranks fit
	DecisionLock = "decision lock"
	Survey       = "survey"
	Plan         = "plan"
	Claim        = "claim"
	Stage        = "stage"

	Start      = "start"       // from the order to start until all ranks run
	FirstFence = "first fence" // from then until all ranks of the host, or of the job, have reached the first fence
	Run        = "run"         // from the order to start until the last rank has ended; in a rank's row: while it runs
	End        = "end"         // from then until all output has arrived
	Output     = "output"      // until standard output has accepted the rest

	Job     = "job"     // the whole job, from the first connection on
	Attempt = "attempt" // one attempt of a job with --restart; its number follows
	Fence   = "fence"   // until no process of the last attempt can be running
)

// A stepInfo says how a step looks in pictures of traces, and whether Slowest counts it.
type stepInfo struct {
	step             string
	color            string // in the SVG picture
	countsForSlowest bool   // counts for Slowest: it is work of the host itself, and not waiting for others
}

// stepInfos lists all steps, in the order of the legend of a picture.
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

// infoOf returns the description of a step, or nil if the step is unknown.
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

// IsKnownStep reports whether a trace can contain a step of this name.
func IsKnownStep(step string) bool { return infoOf(step) != nil }
