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
	PMIJunk
	PMILost
	PMIBroken
	NoFinalize
	LostNode
	CutNode
	StartTimeout
	RunTimeout
	OverLimit
	StdinFailed
	OutputFailed
	StdoutGone
	BySignal
	NodeTold
	RMEnds
	ByAsk
	ByMove
)

// A Failed is news of something that may end the job. Its kind says which of the rest it has.
type Failed struct {
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

// A subject is whose fault a cause is.
type subject string

const (
	nobody  subject = "nobody"
	theRank subject = "the rank"
	theNode subject = "the node"
)

// A causeRule is all that is particular to a kind of cause.
type causeRule struct {
	name   string                                         // in doc/supervision.md
	reason string                                         // in --report (RM-53)
	again  job.EndKind                                    // the reason to start again that it may be (SV-1); empty: it is never one
	text   func(s *State, e Failed, now time.Time) string // of the report; nil: there is none
	code   func(s *State, e Failed) int                   // exit code; of what others say, any number
	blames subject                                        // --exit-status asks the ranks if it is one's fault

	chosen bool          // the program has chosen its code: 125 is not ours, and 0 is success
	waits  time.Duration // for a better cause to show, before it counts
	yields []Kind        // of what it may be the consequence: if told within causeGrace, they take its place
	early  bool          // it is told at once, ahead of what was before it on its node
	late   bool          // it counts also when all ranks are over
	mild   bool          // with KeepAll the others go on
	hurry  bool          // it is from outside: who reads the output is not waited for (IO-10)

	byRM func(Cause) bool // it may come of what a batch system does to hosts, starters and ranks when it ends a job (RM-61); nil: it does not
}

/*
causes is the table of all that ends a job other than well. A new cause is a row here, an example in
TestCauses, and its line in doc/supervision.md, which that test writes.

The first cause in time counts (EXIT-2), but for those that it yields to.
*/
var causes = [...]causeRule{
	RankExited: {name: "a rank ends with a code", reason: "exit", again: job.ByCode, text: rankDid, code: told, blames: theRank, chosen: true,
		yields: []Kind{RankDied, LostNode}, byRM: anyhow},
	RankDied:       {name: "a rank dies by a signal", reason: "signal", again: job.BySignal, text: rankDid, code: told, blames: theRank, chosen: true, byRM: endedBySignal},
	RankNotStarted: {name: "a program cannot be executed", reason: "start", again: job.ByStart, text: ofRank, code: told, blames: theRank},
	MPIAbort: {name: "a rank calls MPI_Abort", reason: "exit", again: job.ByAbort, text: aborted, code: abortCode, blames: theRank, chosen: true,
		yields: []Kind{RankExited, RankDied, LostNode}, early: true, late: true},
	PMIJunk:      {name: "a rank talks junk on PMI", reason: "exit", again: job.ByCode, text: ofRank, code: always(1), blames: theRank, mild: true},
	PMILost:      {name: "a rank loses its PMI connection", reason: "exit", again: job.ByCode, text: hungUp, code: always(1), blames: theRank, waits: causeGrace, mild: true},
	PMIBroken:    {name: "a barrier can never complete", reason: "exit", again: job.ByCode, text: asTold, code: always(1), blames: nobody, waits: causeGrace, mild: true},
	NoFinalize:   {name: "a rank leaves without finalize", reason: "exit", again: job.ByCode, text: leftOthers, code: always(1), blames: nobody, waits: silentGrace, mild: true},
	LostNode:     {name: "a node is lost", reason: "host_lost", again: job.ByNode, text: lostContact, code: always(job.ExitInternal), blames: theNode, byRM: anyhow},
	CutNode:      {name: "a node says what no helper says", reason: "host_lost", again: job.ByNode, text: lostContact, code: always(job.ExitInternal), blames: theNode},
	StartTimeout: {name: "`--start-timeout` strikes", reason: "start", again: job.ByStart, text: startedTooFew, code: always(job.ExitInternal), blames: nobody},
	RunTimeout:   {name: "`-timeout` strikes", reason: "limit", text: ranTooLong, code: always(job.ExitTimeout), blames: nobody, hurry: true},
	OverLimit:    {name: "a limit is exceeded", reason: "limit", text: asTold, code: always(job.ExitTimeout), blames: nobody, hurry: true},
	StdinFailed:  {name: "our stdin cannot be read", reason: "internal", text: ofStdin, code: always(job.ExitInternal), blames: nobody},
	OutputFailed: {name: "our stdout or a file is full", reason: "internal", text: asTold, code: always(job.ExitInternal), blames: nobody, late: true},
	StdoutGone:   {name: "nobody reads our stdout", reason: "user", code: always(job.ExitNoStdout), blames: nobody, late: true, hurry: true},
	BySignal:     {name: "a signal ends mpiexec", reason: "user", code: told, blames: nobody, late: true, hurry: true, byRM: anyhow},
	NodeTold:     {name: "a node alone is told to end", reason: "host_lost", again: job.ByNode, text: toldToEnd, code: always(job.ExitInternal), blames: theNode, byRM: anyhow},
	RMEnds:       {name: "the batch system ends its job", reason: "rm", text: rmEnds, code: always(job.SIGTERM.Status()), blames: nobody, late: true, hurry: true},
	ByAsk:        {name: "somebody ends it with `--end`", reason: "user", text: asTold, code: always(job.SIGTERM.Status()), blames: nobody, late: true, hurry: true},
	ByMove:       {name: "somebody moves it with `--migrate`", reason: "move", again: job.ByMove, text: asTold, code: always(job.ExitCheckpointed), blames: nobody},
}

// Late reports whether a cause counts also when all ranks are over: output is lost whenever it
// is written.
func (k Kind) Late() bool { return causes[k].late }

// Reason is a cause in a word; nil is that of a job that ends well (RM-53).
func (c *Cause) Reason() string {
	if c == nil {
		return "ok"
	}
	return c.rule().reason
}

// End is a cause as far as a restart depends on it (SV-1); empty: it is never a reason for one.
func (c *Cause) End() job.EndKind {
	if c == nil {
		return ""
	}
	return c.rule().again
}

func (c Cause) rule() causeRule { return causes[c.Kind] }

// yieldsTo reports whether a cause may be the consequence of another that was told after it:
// when a rank crashes or a node dies, other ranks notice, and abort or exit with a code, often
// before we have heard. Of one node we hear of exits in order, but of an abort at once.
func (c Cause) yieldsTo(other Cause) bool {
	rule := c.rule()
	return other.Rank != c.Rank && slices.Contains(rule.yields, other.Kind) &&
		(other.Node != c.Node || rule.early && other.Rank >= 0)
}

// ours reports whether the failure is our own, so that MPIEXEC_ERROR_CODE stands for it.
func (c Cause) ours() bool { return c.Code == job.ExitInternal && !c.rule().chosen }

// success reports whether the code that the program has chosen is no failure.
func (c Cause) success() bool { return c.Code == 0 && c.rule().chosen }

// judge makes a cause of news.
func (s *State) judge(e Failed, now time.Time) Cause {
	rule := causes[e.Kind]
	c := Cause{Kind: e.Kind, Hint: e.Hint, Code: rule.code(s, e), Rank: -1, Node: -1}
	if rule.text != nil {
		c.Text = rule.text(s, e, now)
	}
	switch rule.blames {
	case theRank:
		c.Rank, c.Node = e.Rank, s.nodeOf(e.Rank)
	case theNode:
		c.Node = e.Node
	}
	return c
}

// ended is the news of a rank that failed by itself.
func ended(exit *job.Exit) Failed {
	kind := RankExited
	if exit.Signal != 0 {
		kind = RankDied
	}
	return Failed{Kind: kind, Rank: exit.Rank, Code: exit.Status(), Text: died(exit)}
}

// What a batch system may have done.

func anyhow(Cause) bool { return true }

// endedBySignal is of ranks that died by the signals with which jobs are ended.
func endedBySignal(c Cause) bool {
	return c.Code == job.SIGTERM.Status() || c.Code == job.Signal(9).Status()
}

// The exit codes of causes.

func always(code int) func(*State, Failed) int { return func(*State, Failed) int { return code } }

func told(_ *State, e Failed) int { return e.Code }

// abortCode is what a rank says to MPI_Abort: but nobody makes a success of a job by killing
// what others had not finished (TRUST-33).
func abortCode(s *State, e Failed) int {
	if e.Code == 0 && s.othersRun(e.Rank) {
		return 1
	}
	return e.Code
}

// The sentences of causes.

func asTold(_ *State, e Failed, _ time.Time) string { return e.Text }

func rankDid(s *State, e Failed, _ time.Time) string { return s.Who(e.Rank) + " " + e.Text }

func ofRank(s *State, e Failed, _ time.Time) string { return s.Who(e.Rank) + ": " + e.Text }

func ofStdin(_ *State, e Failed, _ time.Time) string { return "standard input: " + e.Text }

func aborted(s *State, e Failed, _ time.Time) string {
	text := fmt.Sprintf("%s called MPI_Abort with code %d", s.Who(e.Rank), e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

func hungUp(s *State, e Failed, _ time.Time) string {
	return fmt.Sprintf("rank %s closed its PMI connection without MPI_Finalize", s.Number(e.Rank))
}

func leftOthers(s *State, e Failed, _ time.Time) string {
	return s.Who(e.Rank) + " ended without calling MPI_Finalize, and the others go on"
}

// lostContact also names the ranks that are over by it (REP-6).
func lostContact(s *State, e Failed, now time.Time) string {
	text := "lost contact with " + s.nodes[e.Node].name
	if e.Text != "" {
		text += " (" + e.Text + ")"
	}
	text += " after " + job.Clock(now.Sub(s.began))
	if len(e.ranks) > 0 {
		text += ", where " + Ranks(e.ranks) + " ran"
	}
	return text
}

// toldToEnd is of a node whose processes got a signal that was not ours, and no other did.
func toldToEnd(s *State, e Failed, _ time.Time) string {
	text := fmt.Sprintf("%s was told to end (%s)", s.nodes[e.Node].name, job.Signal(e.Code))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// rmEnds says who ends the job. What it does not tell us, since it does not tell anybody, is why.
func rmEnds(s *State, _ Failed, _ time.Time) string {
	return fmt.Sprintf("%s ends job %s (time limit, or cancelled)", s.rules.RM.System, s.rules.RM.Job)
}

func startedTooFew(s *State, _ Failed, _ time.Time) string {
	return text.Count(s.unstarted, "rank") + " had not started when --start-timeout struck"
}

func ranTooLong(s *State, _ Failed, _ time.Time) string {
	return fmt.Sprintf("the job ran longer than -timeout %v", s.rules.Timeout)
}
