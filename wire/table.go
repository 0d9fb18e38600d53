package wire

import (
	"fmt"
	"reflect"
	"strings"
)

// A Side is one of the two ends of a Conn.
type Side int

// These are the sides of a connection: mpiexec, a helper, or either of them.
const (
	Launcher Side = iota + 1
	Helper
	Either
)

func (s Side) String() string {
	if s == Launcher {
		return "mpiexec"
	}
	return "a helper"
}

// A Phase is a part of a session. Each message is allowed only in certain phases.
type Phase int

// These are the phases of a session, in order. While ranks of the job run, a spawn passes through the phases
// from Reserving to Running once more.
const (
	Greeting   Phase = iota + 1 // before all other phases
	Queueing                    // before a plan, and between two plans
	Reserving                   // until Start
	Staging                     // before the first Start
	Running                     // from Start on
	Ending                      // from EndJob on; Bye is always allowed
	Listing                     // after Greeting, for helpers without ranks
	Diagnosing                  // likewise
	Always                      // after Greeting
)

// A Kind is a kind of message, and one row of the message table (rule TRUST-4). It has a name, a sender, a
// phase, the maximum size of a body in bytes, and a function that returns an empty message.
type Kind struct {
	Name    string
	Sender  Side
	Phase   Phase
	MaxBody int
	New     func() Message

	// Example returns a valid message about a rank, for tests. Only features have it in their rows.
	Example func(rank int) Message
}

// A Row describes a kind of message that a feature adds with Register.
type Row struct {
	Sender  Side
	Phase   Phase
	MaxBody int
	Example func(rank int) Message
}

// maxUnbounded is the maximum size in bytes of the body of messages that have no tighter limit. A fence of 1,000
// nodes with 64 business cards each takes some 64 MiB.
const maxUnbounded = 1 << 30

// table lists all kinds of messages. The index is the number of the kind in the protocol. A number never changes its
// meaning within a Version. A message that helpers send also needs a rule in launch/node and a handler in launch or
// launch/reserve. A message that mpiexec sends needs a handler in helper. Features add their messages with Register.
var table = [256]Kind{
	1: {"Hello", Helper, Greeting, 4 << 10, newMessage[Hello], nil},
	2: {"NodeInfo", Helper, Greeting, 1 << 20, newMessage[NodeInfo], nil},

	22: {"LockDecision", Launcher, Queueing, 8 << 10, newMessage[LockDecision], nil},
	23: {"DecisionLocked", Helper, Queueing, 4 << 10, newMessage[DecisionLocked], nil},
	24: {"UnlockDecision", Launcher, Queueing, 0, newMessage[UnlockDecision], nil},
	27: {"Enqueue", Launcher, Queueing, 1 << 20, newMessage[Enqueue], nil},
	28: {"QueuePosition", Helper, Queueing, 128 << 10, newMessage[QueuePosition], nil},
	47: {"Overtake", Launcher, Queueing, 64, newMessage[Overtake], nil},
	30: {"WatchClaims", Launcher, Queueing, 8 << 10, newMessage[WatchClaims], nil},
	31: {"ClaimsChanged", Helper, Queueing, 0, newMessage[ClaimsChanged], nil},
	29: {"Dequeue", Launcher, Queueing, 0, newMessage[Dequeue], nil},

	53: {"WriteMark", Launcher, Reserving, 256, newMessage[WriteMark], nil},
	54: {"MarkWritten", Helper, Reserving, 8 << 10, newMessage[MarkWritten], nil},
	55: {"ReadMarks", Launcher, Reserving, 256, newMessage[ReadMarks], nil},
	56: {"MarksRead", Helper, Reserving, 8 << 10, newMessage[MarksRead], nil},
	25: {"Survey", Launcher, Reserving, 8 << 10, newMessage[Survey], nil},
	26: {"Surveyed", Helper, Reserving, 1 << 20, newMessage[Surveyed], nil},
	3:  {"Prepare", Launcher, Reserving, maxUnbounded, newMessage[Prepare], nil},
	4:  {"Prepared", Helper, Reserving, 16 << 10, newMessage[Prepared], nil},
	5:  {"Refused", Helper, Reserving, 16 << 10, newMessage[Refused], nil},
	20: {"ClaimConflict", Helper, Reserving, 16 << 10, newMessage[ClaimConflict], nil},
	21: {"CancelPrepare", Launcher, Reserving, 4 << 10, newMessage[CancelPrepare], nil},

	6:  {"Start", Launcher, Running, 4 << 10, newMessage[Start], nil},
	7:  {"Started", Helper, Running, 256 << 10, newMessage[Started], nil},
	40: {"KillGroup", Launcher, Running, 4 << 10, newMessage[KillGroup], nil},
	8:  {"Data", Either, Running, len(dataBuffer{}), newMessage[Data], nil},
	88: {"StdinBroadcast", Launcher, Running, 1 << 20, newMessage[StdinBroadcast], nil},
	9:  {"Credit", Either, Running, 64, newMessage[Credit], nil},
	10: {"Fence", Helper, Running, maxUnbounded, newMessage[Fence], nil},
	11: {"Fenced", Launcher, Running, maxUnbounded, newMessage[Fenced], nil},
	43: {"RankMapRequest", Helper, Running, 4 << 10, newMessage[RankMapRequest], nil},
	44: {"RankMap", Launcher, Running, maxUnbounded, newMessage[RankMap], nil},
	67: {"GroupEnded", Launcher, Running, 4 << 10, newMessage[GroupEnded], nil},
	41: {"ResizeTerminal", Launcher, Running, 64, newMessage[ResizeTerminal], nil},
	12: {"Signal", Launcher, Running, 16, newMessage[Signal], nil},
	82: {"Hold", Launcher, Running, 256, newMessage[Hold], nil},
	14: {"PMIReport", Helper, Running, 8 << 10, newMessage[PMIReport], nil},
	15: {"Exited", Helper, Running, 16 << 10, newMessage[Exited], nil},
	85: {"HelperSignaled", Helper, Running, 8 << 10, newMessage[HelperSignaled], nil},

	13: {"EndJob", Launcher, Ending, 64, newMessage[EndJob], nil},
	52: {"ProcessesGone", Helper, Ending, 0, newMessage[ProcessesGone], nil},
	16: {"Drained", Helper, Ending, 4 << 20, newMessage[Drained], nil},
	57: {"NextAttempt", Launcher, Ending, 0, newMessage[NextAttempt], nil},
	58: {"AttemptReady", Helper, Ending, 0, newMessage[AttemptReady], nil},
	59: {"ReleaseClaims", Launcher, Reserving, 0, newMessage[ReleaseClaims], nil},
	19: {"Bye", Launcher, Ending, 0, newMessage[Bye], nil},

	32: {"ListLedger", Launcher, Listing, 8 << 10, newMessage[ListLedger], nil},
	33: {"LedgerListed", Helper, Listing, 4 << 20, newMessage[LedgerListed], nil},
	34: {"SignalJob", Launcher, Listing, 8 << 10, newMessage[SignalJob], nil},
	35: {"JobSignaled", Helper, Listing, 4 << 10, newMessage[JobSignaled], nil},
	48: {"Evict", Launcher, Listing, 8 << 10, newMessage[Evict], nil},
	49: {"Evicted", Helper, Listing, 1 << 20, newMessage[Evicted], nil},

	60: {"Diagnose", Launcher, Diagnosing, 1 << 20, newMessage[Diagnose], nil},
	61: {"Diagnosed", Helper, Diagnosing, 128 << 10, newMessage[Diagnosed], nil},
	62: {"OpenProbePort", Launcher, Diagnosing, 8 << 10, newMessage[OpenProbePort], nil},
	63: {"ProbePortOpened", Helper, Diagnosing, 8 << 10, newMessage[ProbePortOpened], nil},
	64: {"ProbePeers", Launcher, Diagnosing, 1 << 20, newMessage[ProbePeers], nil},
	65: {"PeersProbed", Helper, Diagnosing, 1 << 20, newMessage[PeersProbed], nil},

	76: {"ControlRequest", Either, Always, 8 << 10, newMessage[ControlRequest], nil},
	77: {"ControlReply", Either, Always, 1 << 20, newMessage[ControlReply], nil},

	18: {"Ping", Either, Always, 0, newMessage[Ping], nil},
	17: {"Log", Helper, Always, 64 << 10, newMessage[Log], nil},
}

func newMessage[M any, P interface {
	*M
	Message
}]() Message {
	return P(new(M))
}

// kindNumbers maps the type of a message to the number of its kind.
var kindNumbers = func() map[reflect.Type]byte {
	all := make(map[reflect.Type]byte, len(table))
	for number, k := range table {
		if k.New != nil {
			all[reflect.TypeOf(k.New())] = byte(number)
		}
	}
	return all
}()

// NumberOf returns the number of m's kind. The table must have a row for m.
func NumberOf(m Message) byte { return kindNumbers[reflect.TypeOf(m)] }

// NumberFor returns the number of the kind of messages of type M. The table must have a row for M.
func NumberFor[M Message]() byte {
	number, has := kindNumbers[reflect.TypeFor[M]()]
	if !has {
		panic(fmt.Sprintf("%v has no row in the table of kinds", reflect.TypeFor[M]()))
	}
	return number
}

// Register adds the row of a feature's message M to the message table. Features call Register while the program
// is initialized. The number must not be in use. New features use numbers from 100 on.
func Register[M any, P interface {
	*M
	Message
}](number byte, row Row) {
	if table[number].New != nil {
		panic(fmt.Sprintf("kind %d is %s already", number, table[number].Name))
	}
	table[number] = Kind{reflect.TypeFor[M]().Name(), row.Sender, row.Phase, row.MaxBody, newMessage[M, P], row.Example}
	kindNumbers[reflect.TypeFor[P]()] = number
}

// kindOf returns the row of the table that describes m.
func kindOf(m Message) *Kind { return &table[NumberOf(m)] }

// kindByNumber returns the row of the table with the given number, or nil if there is none.
func kindByNumber(number byte) *Kind {
	if table[number].New == nil {
		return nil
	}
	return &table[number]
}

// Kinds returns all kinds of messages.
func Kinds() []Kind {
	var all []Kind
	for _, k := range table {
		if k.New != nil {
			all = append(all, k)
		}
	}
	return all
}

// NameOf returns the name of a message's kind.
func NameOf(m Message) string { return kindOf(m).Name }

// A Violation is the error for a message that violates the protocol (rule TRUST-2). The first Violation ends the
// connection.
type Violation string

func (v Violation) Error() string { return string(v) }

func unknownKind(kind byte) Violation {
	return Violation(fmt.Sprintf("the host sent a message of unknown kind %d, or with a malformed body", kind))
}

// checkHeader checks the header of a frame. It returns the kind of the message, or an error if the kind is unknown, if
// the body is too large, or if side self must not receive the message. It is called before the body is read (rule
// TRUST-31).
func checkHeader(kind byte, size uint64, self Side) (*Kind, error) {
	k := kindByNumber(kind)
	switch {
	case k == nil:
		return nil, unknownKind(kind)
	case k.Sender == self:
		return nil, Violation(fmt.Sprintf("the host sent the message %s, which only %v may send", k.Name, k.Sender))
	case size > uint64(k.MaxBody):
		return nil, Violation(fmt.Sprintf("the host sent %s message of %d bytes, which is too large", article(k.Name), size))
	}
	return k, nil
}

// article returns name preceded by "a" or "an".
func article(name string) string {
	if strings.ContainsRune("AEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
