package wire

import (
	"fmt"
	"reflect"
	"strings"
)

// A Side is an end of a Conn, and who says what.
type Side int

// The sides.
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

// A Phase is when a message may come.
type Phase int

// The phases, in the order of a job's life. A spawn begins again at Reserving, while others run.
const (
	Greeting  Phase = iota + 1 // before all else
	Queueing                   // before a plan, and between two: of the queue's host, or all
	Reserving                  // until Start
	Staging                    // before the first Start
	Running                    // from Start on
	Ending                     // from End on; for Bye, and what it leaves behind, always
	Listing                    // after Greeting, of helpers that get no ranks
	Examining                  // likewise
	Always                     // after Greeting
)

// A Kind is a row of the table of messages (TRUST-4): its name, who sends it, when, how large
// a body may be, and an empty one.
type Kind struct {
	Name string
	From Side
	When Phase
	Most int
	New  func() Message
}

// vast bounds what has no other measure: what a fence of 1,000 nodes with 64 business cards
// each spreads is some 64 MiB.
const vast = 1 << 30

// table has the row of each kind at its number. The numbers are the protocol: they never
// change their meaning within a Version. A message also has a struct, a place in a drawing, and
// whoever judges and takes it: of a helper launch/node.validator and launch.translateMessage, of mpiexec helper.session.frame.
var table = [...]Kind{
	1: {"Hello", Helper, Greeting, 4 << 10, blank[Hello]},
	2: {"Node", Helper, Greeting, 1 << 20, blank[Node]},

	22: {"Gate", Launcher, Queueing, 8 << 10, blank[Gate]},
	23: {"Gated", Helper, Queueing, 4 << 10, blank[Gated]},
	24: {"Ungate", Launcher, Queueing, 0, blank[Ungate]},
	27: {"Enqueue", Launcher, Queueing, 1 << 20, blank[Enqueue]},
	28: {"Queued", Helper, Queueing, 128 << 10, blank[Queued]},
	47: {"Pass", Launcher, Queueing, 64, blank[Pass]},
	30: {"Watch", Launcher, Queueing, 8 << 10, blank[Watch]},
	31: {"Changed", Helper, Queueing, 0, blank[Changed]},
	29: {"Dequeue", Launcher, Queueing, 0, blank[Dequeue]},

	53: {"Lay", Launcher, Reserving, 256, blank[Lay]},
	54: {"Laid", Helper, Reserving, 8 << 10, blank[Laid]},
	55: {"Seek", Launcher, Reserving, 256, blank[Seek]},
	56: {"Sought", Helper, Reserving, 8 << 10, blank[Sought]},
	25: {"Survey", Launcher, Reserving, 8 << 10, blank[Survey]},
	26: {"Surveyed", Helper, Reserving, 1 << 20, blank[Surveyed]},
	3:  {"Prepare", Launcher, Reserving, vast, blank[Prepare]},
	4:  {"Prepared", Helper, Reserving, 16 << 10, blank[Prepared]},
	5:  {"Refused", Helper, Reserving, 16 << 10, blank[Refused]},
	20: {"Taken", Helper, Reserving, 16 << 10, blank[Taken]},
	21: {"Release", Launcher, Reserving, 4 << 10, blank[Release]},

	70: {"Stage", Launcher, Staging, 8 << 20, blank[Stage]},
	71: {"Wanted", Helper, Staging, 16 << 10, blank[Wanted]},
	72: {"Piece", Launcher, Staging, PieceSize + 64, blank[Piece]},
	73: {"Took", Helper, Staging, 16, blank[Took]},
	74: {"Staged", Helper, Staging, 16 << 10, blank[Staged]},

	6:  {"Start", Launcher, Running, 4 << 10, blank[Start]},
	7:  {"Started", Helper, Running, 256 << 10, blank[Started]},
	40: {"Prune", Launcher, Running, 4 << 10, blank[Prune]},
	8:  {"Data", Either, Running, len(buffer{}), blank[Data]},
	88: {"Feed", Launcher, Running, 1 << 20, blank[Feed]},
	9:  {"Credit", Either, Running, 64, blank[Credit]},
	10: {"Fence", Helper, Running, vast, blank[Fence]},
	11: {"Fenced", Launcher, Running, vast, blank[Fenced]},
	36: {"Name", Helper, Running, 256 << 10, blank[Name]},
	37: {"Named", Launcher, Running, 128 << 10, blank[Named]},
	45: {"Posted", Launcher, Running, 8 << 10, blank[Posted]},
	38: {"Spawn", Helper, Running, 256 << 10, blank[Spawn]},
	39: {"Spawned", Launcher, Running, 16 << 20, blank[Spawned]},
	43: {"Peers", Helper, Running, 4 << 10, blank[Peers]},
	44: {"Peered", Launcher, Running, vast, blank[Peered]},
	67: {"Over", Launcher, Running, 4 << 10, blank[Over]},
	91: {"Fetch", Either, Running, 4 << 10, blank[Fetch]},
	93: {"Notify", Either, Running, 200 << 10, blank[Notify]},
	97: {"Dead", Launcher, Running, vast, blank[Dead]},
	94: {"Notified", Launcher, Running, 64, blank[Notified]},
	95: {"Utter", Helper, Running, 2 << 10, blank[Utter]},
	96: {"Uttered", Launcher, Running, 64, blank[Uttered]},
	92: {"Fetched", Either, Running, MaxFetched + 8<<10, blank[Fetched]},
	41: {"Resize", Launcher, Running, 64, blank[Resize]},
	12: {"Signal", Launcher, Running, 16, blank[Signal]},
	82: {"Hold", Launcher, Running, 256, blank[Hold]},
	50: {"Inspect", Launcher, Running, 64, blank[Inspect]},
	51: {"States", Helper, Running, 8 << 20, blank[States]},
	14: {"PMI", Helper, Running, 8 << 10, blank[PMI]},
	15: {"Exited", Helper, Running, 16 << 10, blank[Exited]},
	80: {"Sampled", Helper, Running, 2 << 20, blank[Sampled]},
	81: {"Exceeded", Helper, Running, 512, blank[Exceeded]},
	85: {"Caught", Helper, Running, 8 << 10, blank[Caught]},
	42: {"Trace", Helper, Running, 64 << 10, blank[Trace]},

	13:  {"End", Launcher, Ending, 64, blank[End]},
	52:  {"Emptied", Helper, Ending, 0, blank[Emptied]},
	100: {"Cleaned", Helper, Ending, 2 << 20, blank[Cleaned]},
	16:  {"Drained", Helper, Ending, 4 << 20, blank[Drained]},
	57:  {"Renew", Launcher, Ending, 0, blank[Renew]},
	58:  {"Renewed", Helper, Ending, 0, blank[Renewed]},
	59:  {"Yield", Launcher, Reserving, 0, blank[Yield]},
	19:  {"Bye", Launcher, Ending, 0, blank[Bye]},

	32: {"List", Launcher, Listing, 8 << 10, blank[List]},
	33: {"Listed", Helper, Listing, 4 << 20, blank[Listed]},
	34: {"Alert", Launcher, Listing, 8 << 10, blank[Alert]},
	35: {"Alerted", Helper, Listing, 4 << 10, blank[Alerted]},
	48: {"Evict", Launcher, Listing, 8 << 10, blank[Evict]},
	49: {"Evicted", Helper, Listing, 1 << 20, blank[Evicted]},

	60: {"Examine", Launcher, Examining, 1 << 20, blank[Examine]},
	61: {"Examined", Helper, Examining, 128 << 10, blank[Examined]},
	62: {"Listen", Launcher, Examining, 8 << 10, blank[Listen]},
	63: {"Listening", Helper, Examining, 8 << 10, blank[Listening]},
	64: {"ProbePeers", Launcher, Examining, 1 << 20, blank[ProbePeers]},
	65: {"PeersProbed", Helper, Examining, 1 << 20, blank[PeersProbed]},

	76: {"Ask", Either, Always, 8 << 10, blank[Ask]},
	77: {"Answer", Either, Always, 1 << 20, blank[Answer]},

	18: {"Ping", Either, Always, 0, blank[Ping]},
	17: {"Log", Helper, Always, 64 << 10, blank[Log]},
}

func blank[M any, P interface {
	*M
	Message
}]() Message {
	return P(new(M))
}

// numbers has the number of each kind by the type of its messages.
var numbers = func() map[reflect.Type]byte {
	all := make(map[reflect.Type]byte, len(table))
	for number, k := range table {
		if k.New != nil {
			all[reflect.TypeOf(k.New())] = byte(number)
		}
	}
	return all
}()

// numberOf returns the number of a message's kind, which has a row in the table.
func numberOf(m Message) byte { return numbers[reflect.TypeOf(m)] }

// kindOf returns the row of a message.
func kindOf(m Message) *Kind { return &table[numberOf(m)] }

// row returns the row of a number, nil if it has none.
func row(number byte) *Kind {
	if int(number) >= len(table) || table[number].New == nil {
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

// A Violation is what the other end said and may not, as TRUST-2 words it. The first one is
// the end of a connection.
type Violation string

func (v Violation) Error() string { return string(v) }

func notAMessage(kind byte) Violation {
	return Violation(fmt.Sprintf("not a message: kind %d", kind))
}

// admissible returns the row of a frame that may be read on this side, before a byte of its
// body is (TRUST-31).
func admissible(kind byte, size uint64, self Side) (*Kind, error) {
	k := row(kind)
	switch {
	case k == nil:
		return nil, notAMessage(kind)
	case k.From == self:
		return nil, Violation(fmt.Sprintf("it sent %s, which only %v sends", k.Name, k.From))
	case size > uint64(k.Most):
		return nil, Violation(fmt.Sprintf("%s of %d bytes", article(k.Name), size))
	}
	return k, nil
}

// article sets "a" or "an" before a name.
func article(name string) string {
	if strings.ContainsRune("AEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
