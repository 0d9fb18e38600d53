package supervise

import (
	"fmt"
	"slices"
	"time"

	"remshell/job"
	"remshell/text"
)

// A Kind is a way in which a job ends other than well: a row of the table of causes.
type Kind int

// The kinds.
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
)

// A Failure is news of something that may end the job. Its kind says which of the rest it has.
type Failure struct {
	Kind  Kind
	Rank  int
	Node  int
	Code  int    // that was told, any number
	Text  string // that was told, for people
	Hint  string // what to do about it
	ranks []int  // that are over by it
}

// A Cause is what ended a job, or would: the first thing that went wrong.
type Cause struct {
	Kind Kind
	Text string // one line, the first of the report; empty: nothing is told
	Hint string
	Code int // before --exit-status and MPIEXEC_ERROR_CODE
	Rank int // whose fault it is; -1: no rank's
	Node int // where that was; -1: nowhere
}

// A blamed is whose fault a cause is.
type blamed string

const (
	blameNobody blamed = "nobody"
	blameRank   blamed = "the rank"
	blameNode   blamed = "the node"
)

// A causeRule is all that is particular to a kind of cause.
type causeRule struct {
	name    string                                          // in doc/supervision.md
	reason  string                                          // in --report (RM-53)
	endKind job.EndKind                                     // the reason to start again that it may be (SV-1); empty: it is never one
	text    func(s *State, e Failure, now time.Time) string // of the report; nil: there is none
	code    func(s *State, e Failure) int                   // exit code; of what others say, any number
	blames  blamed                                          // --exit-status asks the ranks if it is one's fault

	programsCode bool          // the program has chosen its code: 125 is not ours, and 0 is success
	delay        time.Duration // for a better cause to show, before it counts
	yieldsTo     []Kind        // of what it may be the consequence: if told within causeGrace, they take its place
	immediate    bool          // it is told at once, ahead of what was before it on its node
	afterRanks   bool          // it counts also when all ranks are over
	tolerable    bool          // with KeepAll the others go on
	external     bool          // it is from outside: who reads the output is not waited for (IO-10)

	mayBeBatch func(Cause) bool // it may come of what a batch system does to hosts, starters and ranks when it ends a job (RM-61); nil: it does not
}

/*
causes is the table of all that ends a job other than well. A new cause is a row here, an example in
TestCauses, and its line in doc/supervision.md, which that test writes.

The first cause in time counts (EXIT-2), but for those that it yields to.
*/
var causes = [...]causeRule{
	RankExited: {name: "a rank ends with a code", reason: "exit", endKind: job.EndByExitCode, text: rankEndText, code: reportedCode, blames: blameRank, programsCode: true,
		yieldsTo: []Kind{RankDied, NodeConnectionLost}, mayBeBatch: anyCause},
	RankDied:       {name: "a rank dies by a signal", reason: "signal", endKind: job.EndBySignal, text: rankEndText, code: reportedCode, blames: blameRank, programsCode: true, mayBeBatch: endedBySignal},
	RankNotStarted: {name: "a program cannot be executed", reason: "start", endKind: job.EndByStartFailure, text: rankText, code: reportedCode, blames: blameRank},
	MPIAbort: {name: "a rank calls MPI_Abort", reason: "exit", endKind: job.EndByAbort, text: abortText, code: abortCode, blames: blameRank, programsCode: true,
		yieldsTo: []Kind{RankExited, RankDied, NodeConnectionLost}, immediate: true, afterRanks: true},
	PMIMalformed:       {name: "a rank talks junk on PMI", reason: "exit", endKind: job.EndByExitCode, text: rankText, code: fixedCode(1), blames: blameRank, tolerable: true},
	PMIDisconnected:    {name: "a rank loses its PMI connection", reason: "exit", endKind: job.EndByExitCode, text: disconnectText, code: fixedCode(1), blames: blameRank, delay: causeGrace, tolerable: true},
	PMIBarrierBroken:   {name: "a barrier can never complete", reason: "exit", endKind: job.EndByExitCode, text: reportedText, code: fixedCode(1), blames: blameNobody, delay: causeGrace, tolerable: true},
	NotFinalized:       {name: "a rank leaves without finalize", reason: "exit", endKind: job.EndByExitCode, text: notFinalizedText, code: fixedCode(1), blames: blameNobody, delay: silentGrace, tolerable: true},
	NodeConnectionLost: {name: "a node is lost", reason: "host_lost", endKind: job.EndByNodeLoss, text: lostNodeText, code: fixedCode(job.ExitInternal), blames: blameNode, mayBeBatch: anyCause},
	NodeViolation:      {name: "a node says what no helper says", reason: "host_lost", endKind: job.EndByNodeLoss, text: lostNodeText, code: fixedCode(job.ExitInternal), blames: blameNode},
	StartTimeout:       {name: "`--start-timeout` strikes", reason: "start", endKind: job.EndByStartFailure, text: startTimeoutText, code: fixedCode(job.ExitInternal), blames: blameNobody},
	RunTimeout:         {name: "`-timeout` strikes", reason: "limit", text: runTimeoutText, code: fixedCode(job.ExitTimeout), blames: blameNobody, external: true},
	OverLimit:          {name: "a limit is exceeded", reason: "limit", text: reportedText, code: fixedCode(job.ExitTimeout), blames: blameNobody, external: true},
	StdinFailed:        {name: "our stdin cannot be read", reason: "internal", text: stdinText, code: fixedCode(job.ExitInternal), blames: blameNobody},
	OutputFailed:       {name: "our stdout or a file is full", reason: "internal", text: reportedText, code: fixedCode(job.ExitInternal), blames: blameNobody, afterRanks: true},
	StdoutGone:         {name: "nobody reads our stdout", reason: "user", code: fixedCode(job.ExitNoStdout), blames: blameNobody, afterRanks: true, external: true},
	BySignal:           {name: "a signal ends mpiexec", reason: "user", code: reportedCode, blames: blameNobody, afterRanks: true, external: true, mayBeBatch: anyCause},
	NodeToldToEnd:      {name: "a node alone is told to end", reason: "host_lost", endKind: job.EndByNodeLoss, text: toldToEndText, code: fixedCode(job.ExitInternal), blames: blameNode, mayBeBatch: anyCause},
	BatchEndsJob:       {name: "the batch system ends its job", reason: "rm", text: batchEndsText, code: fixedCode(job.SIGTERM.Status()), blames: blameNobody, afterRanks: true, external: true},
	EndedByRequest:     {name: "somebody ends it with `--end`", reason: "user", text: reportedText, code: fixedCode(job.SIGTERM.Status()), blames: blameNobody, afterRanks: true, external: true},
	EndedByMove:        {name: "somebody moves it with `--migrate`", reason: "move", endKind: job.EndByMove, text: reportedText, code: fixedCode(job.ExitCheckpointed), blames: blameNobody},
}

// CountsAfterRanks reports whether a cause counts also when all ranks are over: output is lost whenever it
// is written.
func (k Kind) CountsAfterRanks() bool { return causes[k].afterRanks }

// Reason is a cause in a word; nil is that of a job that ends well (RM-53).
func (c *Cause) Reason() string {
	if c == nil {
		return "ok"
	}
	return c.rule().reason
}

// EndKind is a cause as far as a restart depends on it (SV-1); empty: it is never a reason for one.
func (c *Cause) EndKind() job.EndKind {
	if c == nil {
		return ""
	}
	return c.rule().endKind
}

func (c Cause) rule() causeRule { return causes[c.Kind] }

// yieldsTo reports whether a cause may be the consequence of another that was told after it:
// when a rank crashes or a node dies, other ranks notice, and abort or exit with a code, often
// before we have heard. Of one node we hear of exits in order, but of an abort at once.
func (c Cause) yieldsTo(other Cause) bool {
	rule := c.rule()
	return other.Rank != c.Rank && slices.Contains(rule.yieldsTo, other.Kind) &&
		(other.Node != c.Node || rule.immediate && other.Rank >= 0)
}

// isInternal reports whether the failure is our own, so that MPIEXEC_ERROR_CODE stands for it.
func (c Cause) isInternal() bool { return c.Code == job.ExitInternal && !c.rule().programsCode }

// isSuccess reports whether the code that the program has chosen is no failure.
func (c Cause) isSuccess() bool { return c.Code == 0 && c.rule().programsCode }

// causeOf makes a cause of news.
func (s *State) causeOf(e Failure, now time.Time) Cause {
	rule := causes[e.Kind]
	c := Cause{Kind: e.Kind, Hint: e.Hint, Code: rule.code(s, e), Rank: -1, Node: -1}
	if rule.text != nil {
		c.Text = rule.text(s, e, now)
	}
	switch rule.blames {
	case blameRank:
		c.Rank, c.Node = e.Rank, s.nodeOf(e.Rank)
	case blameNode:
		c.Node = e.Node
	}
	return c
}

// failureOf is the news of a rank that failed by itself.
func failureOf(exit *job.Exit) Failure {
	kind := RankExited
	if exit.Signal != 0 {
		kind = RankDied
	}
	return Failure{Kind: kind, Rank: exit.Rank, Code: exit.Status(), Text: exitText(exit)}
}

// What a batch system may have done.

func anyCause(Cause) bool { return true }

// endedBySignal is of ranks that died by the signals with which jobs are ended.
func endedBySignal(c Cause) bool {
	return c.Code == job.SIGTERM.Status() || c.Code == job.Signal(9).Status()
}

// The exit codes of causes.

func fixedCode(code int) func(*State, Failure) int { return func(*State, Failure) int { return code } }

func reportedCode(_ *State, e Failure) int { return e.Code }

// abortCode is what a rank says to MPI_Abort: but nobody makes a success of a job by killing
// what others had not finished (TRUST-33).
func abortCode(s *State, e Failure) int {
	if e.Code == 0 && s.othersRun(e.Rank) {
		return 1
	}
	return e.Code
}

// The sentences of causes.

func reportedText(_ *State, e Failure, _ time.Time) string { return e.Text }

func rankEndText(s *State, e Failure, _ time.Time) string { return s.RankOnNode(e.Rank) + " " + e.Text }

func rankText(s *State, e Failure, _ time.Time) string { return s.RankOnNode(e.Rank) + ": " + e.Text }

func stdinText(_ *State, e Failure, _ time.Time) string { return "standard input: " + e.Text }

func abortText(s *State, e Failure, _ time.Time) string {
	text := fmt.Sprintf("%s called MPI_Abort with code %d", s.RankOnNode(e.Rank), e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

func disconnectText(s *State, e Failure, _ time.Time) string {
	return fmt.Sprintf("rank %s closed its PMI connection without MPI_Finalize", s.RankNumber(e.Rank))
}

func notFinalizedText(s *State, e Failure, _ time.Time) string {
	return s.RankOnNode(e.Rank) + " ended without calling MPI_Finalize, and the others go on"
}

// lostNodeText also names the ranks that are over by it (REP-6).
func lostNodeText(s *State, e Failure, now time.Time) string {
	text := "lost contact with " + s.nodes[e.Node].name
	if e.Text != "" {
		text += " (" + e.Text + ")"
	}
	text += " after " + job.FormatClock(now.Sub(s.began))
	if len(e.ranks) > 0 {
		text += ", where " + FormatRanks(e.ranks) + " ran"
	}
	return text
}

// toldToEndText is of a node whose processes got a signal that was not ours, and no other did.
func toldToEndText(s *State, e Failure, _ time.Time) string {
	text := fmt.Sprintf("%s was told to end (%s)", s.nodes[e.Node].name, job.Signal(e.Code))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// batchEndsText says who ends the job. What it does not tell us, since it does not tell anybody, is why.
func batchEndsText(s *State, _ Failure, _ time.Time) string {
	return fmt.Sprintf("%s ends job %s (time limit, or cancelled)", s.policy.BatchJob.System, s.policy.BatchJob.Job)
}

func startTimeoutText(s *State, _ Failure, _ time.Time) string {
	return text.Count(s.unstarted, "rank") + " had not started when --start-timeout struck"
}

func runTimeoutText(s *State, _ Failure, _ time.Time) string {
	return fmt.Sprintf("the job ran longer than -timeout %v", s.policy.Timeout)
}
