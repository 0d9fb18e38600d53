package node

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"remshell/job"
	"remshell/limits"
	"remshell/wire"
)

/*
A validator stands before all that one helper says: the one gate of TRUST-1. It hears both ends, and so knows
what the helper may say now:

	mpiexec --- tell ----> validator ---------> helper     questions, ranks, credit, Start, End
	mpiexec <-- message -- validator <-- admit - helper    or the first violation, and the end

It does nothing but that: no I/O, no time but that of its clock. What it has let through
needs no second look: ranks are the node's own and in range, answers were asked for, and
output has its credit. What is late, since it crossed a message of ours on its way, is
dropped in silence (TRUST-5).

One goroutine calls admit, any may call tell. Output, which flows by the million lines, is
judged without a lock: its ranks are in a table that is replaced and never changed, and credit
is counted by atomic numbers.
*/
type validator struct {
	lateness
	ranks atomic.Pointer[rankTable] // of the node's ranks; never nil

	mu             sync.Mutex // guards the rest
	names          []string   // of the node
	greeted        int        // how many of Hello and Node were heard
	questions      requestTable
	queue          queueState
	groups         map[string]*localGroup
	progress       nodeProgress
	fences         map[string]bool // of PMIx, that are open
	givenUpFences  map[string]bool // that it was told to give up, and has not
	openFenceBytes int             // bytes of their names
	requests       rankRequests
	notices        rankRequests // events, which are counted for themselves
	helpTexts      rankRequests // and texts of libraries
	fetches        fetchState
	staging        *stagingState // nil: no parcels were told of
	logs           rateLimit
	samples        bool // they were asked for
	sessions       bool // directories are to stay
	sampling       rateLimit
	controlRate    rateLimit
}

// A lateness knows what is late.
type lateness struct {
	now       func() time.Time
	tolerance time.Duration // how long what crossed a message of ours may take
}

// A nodeProgress is how far the job has come on the node.
type nodeProgress struct {
	groupsStarted  int // groups that were let go
	emptied        int
	drained        int
	cleaned        int
	caught         int
	exceeded       int
	hasPredecessor bool      // an attempt was before this one
	controlOpen    bool      // an Ask was let through that was not answered
	endSent        time.Time // when End was said; zero: it was not
	byeSent        time.Time // when Bye was, or Renew
}

// A localGroup is what a node has of a group.
type localGroup struct {
	first           int  // number of the group's rank 0 in the job
	size            int  // ranks of the group, on all nodes
	hasOtherNodes   bool // the group has other nodes: there are fences
	hasRankZero     bool // it has the group's rank 0
	torchRendezvous bool // which is asked where ranks can meet
	address         string
	trace           bool
	phase           groupPhase
	ranks           []*rankRecord
	nextFence       int  // number of the next one
	fenceOpen       bool // the one before is open
}

type groupPhase int

const (
	prepareSent      groupPhase = iota // Prepare was said
	preparedReceived                   // and Prepared
	startSent                          // and Start
	killSent                           // and Prune
	groupDrained                       // nothing of it is left: Drained was heard
)

// A rankRecord is what is known of a rank of the node. There are as many as a job has ranks, so
// the fields leave no gaps.
type rankRecord struct {
	rank            int
	group           *localGroup
	credit          [2]atomic.Int64 // credit of stdout and stderr, in bytes
	stdinUncredited int             // bytes of its input that were not credited yet
	phase           atomic.Int32    // a life
	outputEnded     [2]bool         // its output streams that have ended; belongs to admit
	stdin           bool            // it gets ours
	stdinClosed     bool            // and does not read any more
}

type rankPhase = int32

const (
	rankPlanned  rankPhase = iota // it is not let go
	rankReleased                  // it is
	rankRunning                   // Started was heard
	rankFailed                    // that it could not be
	rankEnded                     // Exited was heard
)

// defaultTolerance is how long what crossed a message of ours may take, where nobody knows how
// long the link may be silent.
const defaultTolerance = 45 * time.Second

func newValidator(def job.NodeDef, silence time.Duration) *validator {
	v := &validator{lateness: lateness{time.Now, cmp.Or(silence, defaultTolerance)}, names: append([]string{def.Name, def.Host, def.Address}, def.Aliases...),
		questions: make(requestTable), queue: newQueueState(), groups: make(map[string]*localGroup), fences: make(map[string]bool), givenUpFences: make(map[string]bool), fetches: fetchState{forOthers: make(map[int]bool)}, logs: rateLimit{perSecond: 200}, sampling: rateLimit{perSecond: 4}, controlRate: rateLimit{perSecond: maxControlRate}}
	v.ranks.Store(newRankTable(nil))
	return v
}

// checkMessage judges what the helper says. Nothing comes back of what is to be dropped; an error
// is a wire.Violation.
func (v *validator) checkMessage(m wire.Message) (wire.Message, error) {
	if data, ok := m.(*wire.Data); ok && data.Stream != wire.Stdin {
		if err := v.checkOutput(data); err != nil {
			return nil, v.unlessByeSent(m, err)
		}
		return m, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.greeted < 2 || isGreeting(m) {
		return orViolation(m, v.checkGreeting(m))
	}
	if _, renewed := m.(*wire.AttemptReady); renewed {
		return v.questions.takeReply(m, "AttemptReady")
	}
	if !v.progress.byeSent.IsZero() {
		return nil, v.checkLate(m, v.progress.byeSent)
	}
	return v.checkKind(m)
}

// forNextAttempt is the validator of a conversation that begins anew: Hello and Node were heard, and nothing else.
func (v *validator) forNextAttempt() *validator {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := newValidator(job.NodeDef{}, v.tolerance)
	next.progress.hasPredecessor = true
	next.lateness, next.names, next.greeted, next.logs = v.lateness, slices.Clone(v.names), v.greeted, v.logs
	return next
}

// orViolation is a message, or the violation that it is.
func orViolation(m wire.Message, err error) (wire.Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// unlessByeSent is a violation in output, unless we have said Bye: then nothing is noted any more
// of which it may be the consequence.
func (v *validator) unlessByeSent(m wire.Message, violation error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.progress.byeSent.IsZero() {
		return violation
	}
	return v.checkLate(m, v.progress.byeSent)
}

// checkKind finds the rule of a kind (TRUST-4).
func (v *validator) checkKind(m wire.Message) (wire.Message, error) {
	switch m := m.(type) {
	case *wire.Ping:
		return m, nil
	case *wire.Log:
		return v.logs.allow(v.now(), m), nil
	case *wire.DecisionLocked, *wire.Surveyed, *wire.LedgerListed, *wire.JobSignaled, *wire.Evicted, *wire.MarkWritten, *wire.MarksRead, *wire.Diagnosed, *wire.ProbePortOpened, *wire.PeersProbed:
		return v.questions.takeReply(m, wire.NameOf(m))
	case *wire.ControlReply:
		return v.questions.takeReply(m, controlReplyKey(m.ID))
	case *wire.QueuePosition:
		if v.questions["QueuePosition"] != nil {
			return v.questions.takeReply(m, "QueuePosition")
		}
		return v.queue.checkPosition(v.lateness, m)
	case *wire.ClaimsChanged:
		return v.queue.checkChanged(v.now(), m)
	case *wire.Prepared:
		return v.checkPrepared(m)
	case *wire.Refused:
		m.Code = job.StartFailureCode(m.Code)
		return v.checkGroupDropped(m, m.Group)
	case *wire.ClaimConflict:
		return v.checkGroupDropped(m, m.Group)
	case *wire.MissingFiles:
		return orViolation(m, v.staging.checkMissing(m))
	case *wire.FileCredit:
		return v.staging.checkCredit(m)
	case *wire.StageResult:
		return orViolation(m, v.staging.checkResult(m))
	case *wire.RankStates:
		return v.checkStates(m)
	case *wire.ControlRequest:
		return v.checkControl(m)
	case *wire.Data:
		return v.checkStdinClosed(m)
	case *wire.Credit:
		return v.checkCredit(m)
	case *wire.Started:
		return v.checkRankStarted(m)
	case *wire.SampledUsage:
		return v.checkSampled(m)
	case *wire.LimitExceeded:
		return orViolation(m, v.checkExceeded(m))
	case *wire.Exited:
		return orViolation(m, v.checkExited(m))
	case *wire.PMIReport:
		return v.unlessDrained(m, v.checkPMI(m))
	case *wire.PMITrace:
		return orViolation(m, v.checkTrace(m))
	case *wire.Fence:
		return v.checkFence(m)
	case *wire.NameRequest:
		return v.checkRequest(m, m.ID)
	case *wire.RankMapRequest:
		return v.checkRequest(m, m.ID)
	case *wire.Spawn:
		return v.checkSpawn(m)
	case *wire.Notify:
		return v.checkNotify(m)
	case *wire.ShowHelp:
		return v.checkShowHelp(m)
	case *wire.Fetch:
		return v.checkFetch(m)
	case *wire.Fetched:
		return orViolation(m, v.fetches.checkFetched(m))
	case *wire.HelperSignaled:
		return orViolation(m, v.progress.countEnd(m, &v.progress.caught))
	case *wire.ProcessesGone:
		return orViolation(m, v.progress.countEnd(m, &v.progress.emptied))
	case *wire.IPCCleaned:
		return orViolation(m, v.checkCleaned(m))
	case *wire.Drained:
		return orViolation(m, v.checkDrained(m))
	}
	return nil, violation("it sent %s, which only mpiexec sends", wire.NameOf(m))
}

// The violations of TRUST-2.

func violation(format string, words ...any) error {
	return wire.Violation(fmt.Sprintf(format, words...))
}

var (
	errNotAsked = wire.Violation("it answered what was not asked")
	errTooMuch  = wire.Violation("it sent more output than it may")
)

func errNotOurRank(rank int) error {
	return violation("it spoke for rank %d, which is not there", rank)
}
func errEnded(rank int) error { return violation("it spoke of rank %d, which has ended", rank) }

func errEarly(m wire.Message) error {
	return violation("it sent %s before the start", wire.NameOf(m))
}

func errLate(m wire.Message) error {
	return violation("it sent %s after the end", wire.NameOf(m))
}

func errValue(m wire.Message, name string, value any) error {
	article := "a"
	if strings.ContainsRune("AEIOU", rune(wire.NameOf(m)[0])) {
		article = "an"
	}
	return violation("%s %s that cannot be: %s %v", article, wire.NameOf(m), name, value)
}

// checkLate judges what was right until a moment: it may have been on its way.
func (c lateness) checkLate(m wire.Message, since time.Time) error {
	if c.now().Sub(since) > c.tolerance {
		return errLate(m)
	}
	return nil
}

// shiftTimes moves all moments: they do not count while mpiexec is stopped.
func (v *validator) shiftTimes(by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range []*time.Time{&v.progress.endSent, &v.progress.byeSent, &v.queue.dequeued} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// checkStarted sees that something of the job was let go here.
func (c *nodeProgress) checkStarted(m wire.Message) error {
	if c.groupsStarted == 0 {
		return errEarly(m)
	}
	return nil
}

// countEnd hears what is said once for each time that something was let go here.
func (c *nodeProgress) countEnd(m wire.Message, said *int) error {
	switch {
	case c.groupsStarted == 0:
		return errEarly(m)
	case *said >= c.groupsStarted:
		return violation("it sent %s twice", wire.NameOf(m))
	}
	*said++
	return nil
}

func isGreeting(m wire.Message) bool {
	switch m.(type) {
	case *wire.Hello, *wire.NodeInfo:
		return true
	}
	return false
}

// checkGreeting hears Hello and Node, first and second.
func (v *validator) checkGreeting(m wire.Message) error {
	want := -1
	switch m := m.(type) {
	case *wire.Hello:
		want = 0
	case *wire.NodeInfo:
		want = 1
		v.names = append(v.names, m.Probe.Hostname)
	}
	switch {
	case want == v.greeted:
		v.greeted++
		return nil
	case want < 0:
		return errEarly(m)
	case want < v.greeted:
		return violation("it sent %s twice", wire.NameOf(m))
	}
	return errEarly(m)
}

// checkPrepared hears that a part of a group is ready, and where its ranks can meet (TRUST-3).
func (v *validator) checkPrepared(m *wire.Prepared) (wire.Message, error) {
	answer, err := v.questions.takeReply(m, groupKey(m.Group))
	p := v.groups[m.Group]
	if err != nil || answer == nil || p == nil {
		return nil, err
	}
	p.phase = preparedReceived
	switch {
	case m.Rendezvous == "":
	case !p.hasRankZero:
		return nil, errNotOurRank(p.first)
	case !p.torchRendezvous:
		return nil, errNotAsked
	case !v.isValidRendezvous(m.Rendezvous, p.address):
		return nil, errValue(m, "meeting point", strconv.Quote(m.Rendezvous))
	}
	return m, nil
}

// isValidRendezvous reports whether an address is one of the node, and has a port.
func (v *validator) isValidRendezvous(meet, address string) bool {
	host, port, err := net.SplitHostPort(meet)
	n, noNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || noNumber != nil || n == 0 || host == "" {
		return false
	}
	_, noAddress := netip.ParseAddr(host)
	return noAddress == nil || host == address || slices.Contains(v.names, host)
}

// checkGroupDropped hears that there will be no part of a group here.
func (v *validator) checkGroupDropped(m wire.Message, group string) (wire.Message, error) {
	answer, err := v.questions.takeReply(m, groupKey(group))
	if answer != nil {
		v.forgetGroup(group)
	}
	return answer, err
}

// checkStates hears what ranks are doing, each at most once.
func (v *validator) checkStates(m *wire.RankStates) (wire.Message, error) {
	seen := make(map[int]bool)
	for _, r := range m.Ranks {
		s := v.findRank(r.Rank)
		switch {
		case s == nil:
			return nil, errNotOurRank(r.Rank)
		case seen[r.Rank]:
			return nil, errValue(m, "rank", fmt.Sprint(r.Rank, " twice"))
		}
		seen[r.Rank] = true
	}
	return v.questions.takeReply(m, "RankStates")
}

// checkSampled hears what processes have: each rank that was let go at most once, and no more often
// than there are samples (RM-51).
func (v *validator) checkSampled(m *wire.SampledUsage) (wire.Message, error) {
	if err := v.progress.checkStarted(m); err != nil {
		return nil, err
	}
	if !v.samples {
		return nil, errNotAsked
	}
	seen := make(map[int]bool, len(m.Ranks))
	for _, r := range m.Ranks {
		s := v.findRank(r.Rank)
		switch {
		case s == nil:
			return nil, errNotOurRank(r.Rank)
		case s.phase.Load() == rankPlanned:
			return nil, errEarly(m)
		case seen[r.Rank]:
			return nil, errValue(m, "rank", fmt.Sprint(r.Rank, " twice"))
		}
		seen[r.Rank] = true
	}
	return v.sampling.allow(v.now(), m), nil
}

// checkExceeded hears that more was used than the node allows: of its own ranks, and of what it can know.
func (v *validator) checkExceeded(m *wire.LimitExceeded) error {
	if err := v.progress.countEnd(m, &v.progress.exceeded); err != nil {
		return err
	}
	what, one := m.Limit.Resource, m.Limit.Resource == limits.RankMem
	switch s := v.findRank(m.Rank); {
	case !what.IsHostLimit() || what.IsKernelLimit():
		return errValue(m, "limit", string(what))
	case one && m.Rank == -1: // processes of no rank
	case one && s == nil:
		return errNotOurRank(m.Rank)
	case one && s.phase.Load() == rankPlanned:
		return errEarly(m)
	case !one && m.Rank != -1:
		return errValue(m, "rank", fmt.Sprint(m.Rank))
	case m.Used <= m.Limit.Max:
		return errValue(m, "use", fmt.Sprint(m.Used))
	}
	return nil
}

// checkCleaned hears what ranks that are gone have left: those of the node, and what there is of the kind.
func (v *validator) checkCleaned(m *wire.IPCCleaned) error {
	if err := v.progress.countEnd(m, &v.progress.cleaned); err != nil {
		return err
	}
	for _, r := range m.Leftovers {
		switch {
		case r.Rank != -1 && v.findRank(r.Rank) == nil:
			return errNotOurRank(r.Rank)
		case r.Kind != job.LeftoverSysVShm && r.Kind != job.LeftoverPosixShm:
			return errValue(m, "kind", strconv.Quote(r.Kind))
		}
	}
	return nil
}

func groupKey(name string) string { return "group " + name }
