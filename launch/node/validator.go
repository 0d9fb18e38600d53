package node

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"remshell/job"
	"remshell/wire"
)

/*
A Validator checks each message of one helper (rule TRUST-1). It sees the messages of both sides, so it knows what the
helper may send now:

	mpiexec --- NoteSent ---> validator ---------------> helper   requests, ranks, credit, Start, EndJob
	mpiexec <--- message ---- validator <- CheckMessage - helper  the first violation ends the connection

It does no I/O, and reads only its own clock. Other code need not check these messages again: ranks belong to the node
and are in range, replies were requested, and output has credit. A message that is late because it crossed a message
from mpiexec is dropped silently (rule TRUST-5).

One goroutine calls CheckMessage. Any goroutine may call NoteSent. Output may be millions of lines, so it
is checked without a lock: the table of ranks is replaced, never changed, and credit is atomic.
*/
type Validator struct {
	lateness
	ranks atomic.Pointer[rankTable] // the node's ranks; never nil

	mu             sync.Mutex // guards the rest
	names          []string   // of the node: its name, host name, address and aliases
	greeted        int        // how many of Hello and NodeInfo were received: 0 to 2
	requestsSent   requestTable
	queue          queueState
	groups         map[string]*LocalGroup
	progress       nodeProgress
	fences         map[string]bool // open PMIx fences, by ID
	givenUpFences  map[string]bool // fences that mpiexec has closed before the node joined them
	openFenceBytes int             // length of the IDs in fences
	requests       RankRequests
	logs           RateLimit
	sessions       bool // session directories must be kept
	controlRate    RateLimit
	featureStates  map[reflect.Type]any // see StateOf; nil: no feature has a state
	settings       []wire.Setting       // of features, which the helper got
}

// A lateness contains what checkLate needs to decide whether a message that is no longer allowed is only late, or a
// violation of the protocol.
type lateness struct {
	now       func() time.Time
	tolerance time.Duration // how late a message may be if it crossed a message from mpiexec
}

// A nodeProgress records which steps of the job have happened on the node.
type nodeProgress struct {
	groupsStarted  int       // groups for which Start was sent
	emptied        int       // ProcessesGone received
	drained        int       // Drained received
	caught         int       // HelperSignaled received
	hasPredecessor bool      // this is not the job's first attempt
	controlOpen    bool      // a ControlRequest was let through and has no reply yet
	endSent        time.Time // when EndJob was sent; zero if it was not
	byeSent        time.Time // when Bye or NextAttempt was sent; zero if neither was
}

// A LocalGroup is the part of a group of ranks that runs on this node.
type LocalGroup struct {
	first           int  // number of the group's rank 0 in the job
	size            int  // ranks of the group, on all nodes
	hasOtherNodes   bool // the group has other nodes too, so there are fences
	hasRankZero     bool // the node has the group's rank 0
	torchRendezvous bool // the node is asked for torch's rendezvous address
	address         string
	phase           groupPhase
	ranks           []*RankRecord
	nextFence       int  // number of the next fence
	fenceOpen       bool // the fence before nextFence is open
}

// FindGroup returns the group with the given name, or nil if no such group has ranks on the node.
func (v *Validator) FindGroup(name string) *LocalGroup { return v.groups[name] }

// IsPlanned reports whether mpiexec has not yet sent Start for the group.
func (p *LocalGroup) IsPlanned() bool { return p.phase < startSent }

// First returns the number that the group's rank 0 has in the job.
func (p *LocalGroup) First() int { return p.first }

// Size returns the number of ranks of the group on all nodes.
func (p *LocalGroup) Size() int { return p.size }

// HasRank reports whether a rank of a group runs on the node. rank is its number in the group.
func (v *Validator) HasRank(p *LocalGroup, rank int) bool {
	s := v.FindRank(p.first + rank)
	return s != nil && s.group == p
}

type groupPhase int

const (
	prepareSent      groupPhase = iota // Prepare was sent
	preparedReceived                   // Prepared was received
	startSent                          // Start was sent
	killSent                           // KillGroup was sent
	groupDrained                       // Drained was received: nothing of the group is left
)

// A RankRecord is the validator's state of one rank. A job may have 640,000 ranks, so the fields are ordered without
// padding.
type RankRecord struct {
	rank            int
	group           *LocalGroup
	credit          [2]atomic.Int64 // credit of stdout and stderr, in bytes
	stdinUncredited int             // bytes of its stdin that were sent and not credited yet
	phase           atomic.Int32    // a rankPhase
	outputEnded     [2]bool         // stdout and stderr; used by CheckMessage's goroutine alone
	stdin           bool            // it gets mpiexec's stdin
	stdinClosed     bool            // it no longer reads its stdin
}

// IsPlanned reports whether mpiexec has not yet sent Start for the rank's group.
func (s *RankRecord) IsPlanned() bool { return s.phase.Load() == rankPlanned }

// CheckStarted returns a violation unless the helper has reported that the rank runs. m is the message
// about the rank.
func (s *RankRecord) CheckStarted(m wire.Message) error {
	switch s.phase.Load() {
	case rankPlanned, rankReleased:
		return TooEarly(m)
	case rankFailed:
		return errEnded(s.rank)
	}
	return nil
}

// HasExited reports whether the helper has reported the end of the rank.
func (s *RankRecord) HasExited() bool { return s.phase.Load() == rankEnded }

type rankPhase = int32

const (
	rankPlanned  rankPhase = iota // Start was not sent
	rankReleased                  // Start was sent
	rankRunning                   // Started was received
	rankFailed                    // Started was received, with an error
	rankEnded                     // Exited was received
)

// defaultTolerance is how late a message may be if NewValidator gets 0 as maxSilence.
const defaultTolerance = 45 * time.Second

// NewValidator returns the validator for a new connection to a helper. maxSilence is how long the link may
// be silent. now returns the current time.
func NewValidator(def job.NodeDef, maxSilence time.Duration, now func() time.Time) *Validator {
	v := &Validator{lateness: lateness{now, cmp.Or(maxSilence, defaultTolerance)}, names: append([]string{def.Name, def.Host, def.Address}, def.Aliases...),
		requestsSent: make(requestTable), groups: make(map[string]*LocalGroup), fences: make(map[string]bool), givenUpFences: make(map[string]bool)}
	v.ranks.Store(newRankTable(nil))
	return v
}

// CheckMessage checks a message of the helper. It returns nil if the message must be dropped. An error is a
// wire.Violation.
func (v *Validator) CheckMessage(m wire.Message) (wire.Message, error) {
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
	if _, ready := m.(*wire.AttemptReady); ready {
		return v.requestsSent.takeReply(m)
	}
	if !v.progress.byeSent.IsZero() {
		return nil, v.checkLate(m, v.progress.byeSent)
	}
	return v.admit(m)
}

// forNextAttempt returns the validator for the next attempt's Node. It starts anew, except that Hello and NodeInfo
// are marked as received.
func (v *Validator) forNextAttempt() *Validator {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := NewValidator(job.NodeDef{}, v.tolerance, v.now)
	next.progress.hasPredecessor = true
	next.lateness, next.names, next.greeted, next.logs = v.lateness, slices.Clone(v.names), v.greeted, v.logs
	return next
}

// orViolation returns m if err is nil, and otherwise nil and err.
func orViolation(m wire.Message, err error) (wire.Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// unlessByeSent returns violation if Bye was not sent. After Bye, the validator no longer records sent messages, so a
// correct message may look like a violation. unlessByeSent then returns an error only if m arrives too late.
func (v *Validator) unlessByeSent(m wire.Message, violation error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.progress.byeSent.IsZero() {
		return violation
	}
	return v.checkLate(m, v.progress.byeSent)
}

// The violations of rule TRUST-2.

// Violationf returns a violation. Its text says what the host did, such as "the host sent the message Exited twice".
func Violationf(format string, args ...any) error {
	return wire.Violation(fmt.Sprintf(format, args...))
}

// ErrNotAsked is the violation for a helper that sends a reply without a request.
var ErrNotAsked = wire.Violation("the host sent a reply that mpiexec had not requested")

var errTooMuch = wire.Violation("the host sent more output than mpiexec allowed")

// NotOurRank returns the violation for a message about a rank that is not on the node.
func NotOurRank(rank int) error {
	return Violationf("the host sent a message about rank %d, which does not run there", rank)
}

func errEnded(rank int) error {
	return Violationf("the host sent a message about rank %d, which has ended", rank)
}

// TooEarly returns the violation for a message about something, such as a rank, that has not been started.
func TooEarly(m wire.Message) error {
	return Violationf("the host sent the message %s before the start", wire.NameOf(m))
}

func errLate(m wire.Message) error {
	return Violationf("the host sent the message %s after the end", wire.NameOf(m))
}

// InvalidValue returns the violation for a message with an impossible value. name is the name of the value.
func InvalidValue(m wire.Message, name string, value any) error {
	article := "a"
	if strings.ContainsRune("AEIOU", rune(wire.NameOf(m)[0])) {
		article = "an"
	}
	return Violationf("the host sent %s %s message with an impossible value: %s %v", article, wire.NameOf(m), name, value)
}

// checkLate checks a message of a kind that has not been allowed since the given time. If that time is at most
// tolerance ago, the message may have been in flight, and checkLate returns nil. Otherwise it returns a violation.
func (c lateness) checkLate(m wire.Message, since time.Time) error {
	if c.now().Sub(since) > c.tolerance {
		return errLate(m)
	}
	return nil
}

// shiftTimes adds to all recorded times the duration for which mpiexec was stopped.
func (v *Validator) shiftTimes(stopped time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range []*time.Time{&v.progress.endSent, &v.progress.byeSent, &v.queue.dequeued} {
		if !t.IsZero() {
			*t = t.Add(stopped)
		}
	}
}

// LimitRate returns m, or nil if more than perSecond messages were received in this second. rate counts
// the messages of one kind.
func (v *Validator) LimitRate(rate *RateLimit, perSecond int, m wire.Message) wire.Message {
	return rate.allow(v.now(), perSecond, m)
}

// maxLogRate is the maximum number of lines of a helper's log that mpiexec accepts each second.
const maxLogRate = 200

// CheckStarted returns a violation if no group was started on the node. m is the helper's message.
func (v *Validator) CheckStarted(m wire.Message) error {
	if v.progress.groupsStarted == 0 {
		return TooEarly(m)
	}
	return nil
}

// CountEnd adds 1 to received, the number of messages of m's kind. The helper may send one of them for each group that
// was started. If it has sent more, CountEnd returns a violation.
func (v *Validator) CountEnd(m wire.Message, received *int) error {
	switch {
	case v.progress.groupsStarted == 0:
		return TooEarly(m)
	case *received >= v.progress.groupsStarted:
		return Violationf("the host sent the message %s twice", wire.NameOf(m))
	}
	*received++
	return nil
}

func isGreeting(m wire.Message) bool {
	switch m.(type) {
	case *wire.Hello, *wire.NodeInfo:
		return true
	}
	return false
}

// checkGreeting checks that Hello comes first and NodeInfo second.
func (v *Validator) checkGreeting(m wire.Message) error {
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
		return TooEarly(m)
	case want < v.greeted:
		return Violationf("the host sent the message %s twice", wire.NameOf(m))
	}
	return TooEarly(m)
}

// checkPrepared checks the reply which says that a group is ready on the node. It also checks torch's rendezvous
// address in it (rule TRUST-3).
func (v *Validator) checkPrepared(m *wire.Prepared) (wire.Message, error) {
	reply, err := v.requestsSent.takeReply(m)
	p := v.groups[m.Group]
	if err != nil || reply == nil || p == nil {
		return nil, err
	}
	p.phase = preparedReceived
	switch {
	case m.Rendezvous == "":
	case !p.hasRankZero:
		return nil, NotOurRank(p.first)
	case !p.torchRendezvous:
		return nil, ErrNotAsked
	case !v.isValidRendezvous(m.Rendezvous, p.address):
		return nil, InvalidValue(m, "meeting point", strconv.Quote(m.Rendezvous))
	}
	return m, nil
}

// isValidRendezvous reports whether rendezvous is HOST:PORT. HOST must be an IP address, the node's address, or a
// name of the node.
func (v *Validator) isValidRendezvous(rendezvous, address string) bool {
	host, port, err := net.SplitHostPort(rendezvous)
	n, noNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || noNumber != nil || n == 0 || host == "" {
		return false
	}
	_, noAddress := netip.ParseAddr(host)
	return noAddress == nil || host == address || slices.Contains(v.names, host)
}

// checkGroupDropped checks the reply which says that the node will not start its ranks of a group: Refused or
// ClaimConflict.
func (v *Validator) checkGroupDropped(m wire.Message, group string) (wire.Message, error) {
	reply, err := v.requestsSent.takeReply(m)
	if reply != nil {
		v.forgetGroup(group)
	}
	return reply, err
}
