package supervise

import (
	"fmt"
	"slices"
	"time"

	"remshell/batch"
	"remshell/job"
	"remshell/text"
)

// A Kind is one of the kinds of causes below. Its value is the index of its row in the table causes.
type Kind int

// These are the kinds of causes. Each has a row in the table causes.
const (
	RankExited Kind = iota + 1
	RankDied
	RankNotStarted
	MPIAbort
	PMIMalformed
	PMIDisconnected
	PMIBarrierBroken
	NotFinalized
	NodeConnectionLost
	NodeViolation
	StartTimeout
	RunTimeout
	OverLimit
	StdinFailed
	OutputFailed
	StdoutGone
	BySignal
	NodeToldToEnd
	BatchEndsJob
	EndedByRequest
	EndedByMove
	NoProgress
)

// A Failure is an event that may end the job, such as the crash of a rank. Its Kind determines which other
// fields are set.
type Failure struct {
	Kind  Kind
	Rank  int
	Node  int
	Code  int    // the reported code; may be any number
	Text  string // the reported text
	Hint  string // what to do about it
	ranks []int  // ranks that have ended because of it

	sinceStart time.Duration // of the loss of a node
}

// A Cause is the reason why a job ends. If several failures occur, it is the one that was reported first, unless a
// later one may have caused it.
type Cause struct {
	Kind Kind
	Text string // first line of the report; empty: nothing is reported
	Hint string
	Code int // before --exit-status and MPIEXEC_ERROR_CODE
	Rank int // the rank at fault; -1: none
	Node int // the node of the fault; -1: none
}

// A culprit says which part of the job a cause blames: the rank, the node, or nobody.
type culprit string

const (
	blameNobody culprit = "nobody"
	blameRank   culprit = "the rank"
	blameNode   culprit = "the node"
)

// A causeRule contains the properties of one kind of cause for the end of a job.
type causeRule struct {
	name    string                           // in doc/supervision.md
	reason  string                           // in --report (RM-53)
	endKind job.EndKind                      // kind of end for the restart rules (SV-1); empty: never a reason to restart
	text    func(s *State, e Failure) string // first line of the report; nil: there is none
	code    func(s *State, e Failure) int    // exit code; a reported one may be any number
	blames  culprit                          // if a rank is at fault, --exit-status applies

	programsCode bool          // the program chose the code: 125 does not mean an internal error, and 0 means success
	delay        time.Duration // how long to wait for a better cause before it counts
	yieldsTo     []Kind        // causes of which it may be the consequence: one reported within causeGrace replaces it
	immediate    bool          // reported at once, ahead of earlier events of its node
	afterRanks   bool          // it also counts when all ranks have ended
	tolerable    bool          // with KeepAll the other ranks continue
	external     bool          // it comes from outside: the rest of the output is not waited for (IO-10)

	mayBeBatch func(Cause) bool // reports whether a batch system that ends its job may have caused it (RM-61); nil: it cannot
}

/*
causes has a row for each way in which a job ends abnormally. A new cause needs a row here and an example in
TestCauses. This test also writes the table in doc/supervision.md.

The failure that is reported first is the cause of the job's end (rule EXIT-2), unless a failure that is reported later
may have caused it (yieldsTo).
*/
var causes = [...]causeRule{
	RankExited: {name: "a rank exits with a code other than 0", reason: "exit", endKind: job.EndByExitCode, text: rankEndText, code: reportedCode, blames: blameRank, programsCode: true,
		yieldsTo: []Kind{RankDied, NodeConnectionLost}, mayBeBatch: anyCause},
	RankDied:       {name: "a rank dies by a signal", reason: "signal", endKind: job.EndBySignal, text: rankEndText, code: reportedCode, blames: blameRank, programsCode: true, mayBeBatch: endedBySignal},
	RankNotStarted: {name: "a program cannot be executed", reason: "start", endKind: job.EndByStartFailure, text: rankText, code: reportedCode, blames: blameRank},
	MPIAbort: {name: "a rank calls MPI_Abort", reason: "exit", endKind: job.EndByAbort, text: abortText, code: abortCode, blames: blameRank, programsCode: true,
		yieldsTo: []Kind{RankExited, RankDied, NodeConnectionLost}, immediate: true, afterRanks: true},
	PMIMalformed:       {name: "a rank violates the PMI protocol", reason: "exit", endKind: job.EndByExitCode, text: rankText, code: fixedCode(1), blames: blameRank, tolerable: true},
	PMIDisconnected:    {name: "a rank loses its PMI connection", reason: "exit", endKind: job.EndByExitCode, text: disconnectText, code: fixedCode(1), blames: blameRank, delay: causeGrace, tolerable: true},
	PMIBarrierBroken:   {name: "a barrier can never complete", reason: "exit", endKind: job.EndByExitCode, text: reportedText, code: fixedCode(1), blames: blameNobody, delay: causeGrace, tolerable: true},
	NotFinalized:       {name: "a rank ends without MPI_Finalize", reason: "exit", endKind: job.EndByExitCode, text: notFinalizedText, code: fixedCode(1), blames: blameNobody, delay: silentGrace, tolerable: true},
	NodeConnectionLost: {name: "a node is lost", reason: "host_lost", endKind: job.EndByNodeLoss, text: lostNodeText, code: fixedCode(job.ExitInternal), blames: blameNode, mayBeBatch: anyCause},
	NodeViolation:      {name: "a node violates the protocol", reason: "host_lost", endKind: job.EndByNodeLoss, text: lostNodeText, code: fixedCode(job.ExitInternal), blames: blameNode},
	StartTimeout:       {name: "`--start-timeout` expires", reason: "start", endKind: job.EndByStartFailure, text: startTimeoutText, code: fixedCode(job.ExitInternal), blames: blameNobody},
	RunTimeout:         {name: "`-timeout` expires", reason: "limit", text: runTimeoutText, code: fixedCode(job.ExitTimeout), blames: blameNobody, external: true},
	OverLimit:          {name: "a limit is exceeded", reason: "limit", text: reportedText, code: fixedCode(job.ExitTimeout), blames: blameNobody, external: true},
	StdinFailed:        {name: "mpiexec cannot read its standard input", reason: "internal", text: stdinText, code: fixedCode(job.ExitInternal), blames: blameNobody},
	OutputFailed:       {name: "mpiexec cannot write its standard output or a file", reason: "internal", text: reportedText, code: fixedCode(job.ExitInternal), blames: blameNobody, afterRanks: true},
	StdoutGone:         {name: "the standard output of mpiexec is closed", reason: "user", code: fixedCode(job.ExitNoStdout), blames: blameNobody, afterRanks: true, external: true},
	BySignal:           {name: "a signal ends mpiexec", reason: "user", code: reportedCode, blames: blameNobody, afterRanks: true, external: true, mayBeBatch: anyCause},
	NodeToldToEnd:      {name: "only one node receives a signal that ends processes", reason: "host_lost", endKind: job.EndByNodeLoss, text: toldToEndText, code: fixedCode(job.ExitInternal), blames: blameNode, mayBeBatch: anyCause},
	BatchEndsJob:       {name: "the batch system ends its job", reason: "rm", text: batchEndsText, code: fixedCode(job.SIGTERM.Status()), blames: blameNobody, afterRanks: true, external: true},
	EndedByRequest:     {name: "a user ends the job with `--end`", reason: "user", text: reportedText, code: fixedCode(job.SIGTERM.Status()), blames: blameNobody, afterRanks: true, external: true},
	EndedByMove:        {name: "a user moves the job with `--migrate`", reason: "move", endKind: job.EndByMove, text: reportedText, code: fixedCode(job.ExitCheckpointed), blames: blameNobody},
	NoProgress:         {name: "a job makes no progress (`--hang-action end`)", reason: "limit", text: reportedText, code: fixedCode(job.ExitTimeout), blames: blameNobody, external: true},
}

// CountsAfterRanks reports whether a failure of this kind, such as lost output, still matters when all ranks have
// ended.
func (k Kind) CountsAfterRanks() bool { return causes[k].afterRanks }

// Reason returns the cause as one word for reports. For a nil cause, which means that the job succeeded, it
// returns "ok" (rule RM-53).
func (c *Cause) Reason() string {
	if c == nil {
		return "ok"
	}
	return c.rule().reason
}

// EndKind returns the kind of end that the rules for restarts assign to this cause (rule SV-1). It returns "" if c is
// nil, or if the job is never restarted after such a cause.
func (c *Cause) EndKind() job.EndKind {
	if c == nil {
		return ""
	}
	return c.rule().endKind
}

func (c Cause) rule() causeRule { return causes[c.Kind] }

// yieldsTo reports whether c may be a consequence of other, which was reported later. When a rank crashes or a node
// dies, other ranks may abort or exit with a code before mpiexec learns of the crash. Exits on one node are reported in
// order, but an abort may be reported before an earlier exit.
func (c Cause) yieldsTo(other Cause) bool {
	rule := c.rule()
	return other.Rank != c.Rank && slices.Contains(rule.yieldsTo, other.Kind) &&
		(other.Node != c.Node || rule.immediate && other.Rank >= 0)
}

// isInternal reports whether the failure is one of mpiexec itself. In that case MPIEXEC_ERROR_CODE replaces
// the exit code.
func (c Cause) isInternal() bool { return c.Code == job.ExitInternal && !c.rule().programsCode }

// isSuccess reports whether the exit code is 0 because the program itself has chosen it.
func (c Cause) isSuccess() bool { return c.Code == 0 && c.rule().programsCode }

// causeOf returns the cause for a failure.
func (s *State) causeOf(e Failure) Cause {
	rule := causes[e.Kind]
	c := Cause{Kind: e.Kind, Hint: e.Hint, Code: rule.code(s, e), Rank: -1, Node: -1}
	if rule.text != nil {
		c.Text = rule.text(s, e)
	}
	switch rule.blames {
	case blameRank:
		c.Rank, c.Node = e.Rank, s.nodeOf(e.Rank)
	case blameNode:
		c.Node = e.Node
	}
	return c
}

// failureOf returns the Failure that describes the exit of a rank that failed by itself.
func failureOf(exit *job.Exit) Failure {
	kind := RankExited
	if exit.Signal != 0 {
		kind = RankDied
	}
	return Failure{Kind: kind, Rank: exit.Rank, Code: exit.Status(), Text: exitText(exit)}
}

// Values for causeRule.mayBeBatch.

func anyCause(Cause) bool { return true }

// endedBySignal reports whether the cause is that SIGTERM or SIGKILL has killed a rank. Batch systems end jobs with
// these signals.
func endedBySignal(c Cause) bool {
	return c.Code == job.SIGTERM.Status() || c.Code == job.Signal(9).Status()
}

// Values for causeRule.code.

func fixedCode(code int) func(*State, Failure) int { return func(*State, Failure) int { return code } }

func reportedCode(_ *State, e Failure) int { return e.Code }

// abortCode returns the exit code for a call of MPI_Abort. If other ranks were still running, code 0 becomes 1, because
// a rank that ends other ranks early must not make the job successful (rule TRUST-33).
func abortCode(s *State, e Failure) int {
	if e.Code == 0 && s.othersRun(e.Rank) {
		return 1
	}
	return e.Code
}

// Values for causeRule.text.

func reportedText(_ *State, e Failure) string { return e.Text }

func rankEndText(s *State, e Failure) string { return s.RankOnNode(e.Rank) + " " + e.Text }

func rankText(s *State, e Failure) string { return s.RankOnNode(e.Rank) + ": " + e.Text }

func stdinText(_ *State, e Failure) string { return "standard input: " + e.Text }

func abortText(s *State, e Failure) string {
	text := fmt.Sprintf("%s called MPI_Abort with code %d", s.RankOnNode(e.Rank), e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

func disconnectText(s *State, e Failure) string {
	return fmt.Sprintf("rank %s closed its PMI connection without MPI_Finalize", s.RankNumber(e.Rank))
}

func notFinalizedText(s *State, e Failure) string {
	return s.RankOnNode(e.Rank) + " ended without calling MPI_Finalize, while other ranks still run"
}

// lostNodeText returns the text about a lost node and about the ranks that ran there (rule REP-6).
func lostNodeText(s *State, e Failure) string {
	text := "lost contact with " + s.nodes[e.Node].name
	if e.Text != "" {
		text += " (" + e.Text + ")"
	}
	text += " after " + job.FormatClock(e.sinceStart)
	if len(e.ranks) > 0 {
		text += ", where " + FormatRanks(e.ranks) + " ran"
	}
	return text
}

// toldToEndText returns the text about a node on which processes have received a signal such as SIGTERM, although
// processes on other nodes have not.
func toldToEndText(s *State, e Failure) string {
	text := fmt.Sprintf("the processes on %s received a signal that ends them (%s)", s.nodes[e.Node].name, job.Signal(e.Code))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// batchEndsText returns the text which says that the batch system has ended the job. It names all usual reasons,
// because batch systems do not report which one applies.
func batchEndsText(s *State, _ Failure) string {
	return fmt.Sprintf("%s ends job %s (at its time limit, or because a user cancelled it)", batch.Title(s.policy.BatchJob.System), s.policy.BatchJob.Job)
}

func startTimeoutText(s *State, _ Failure) string {
	return text.Count(s.unstarted, "rank") + " had not started when --start-timeout expired"
}

func runTimeoutText(s *State, _ Failure) string {
	return fmt.Sprintf("the job ran longer than -timeout %v", s.policy.Timeout)
}
