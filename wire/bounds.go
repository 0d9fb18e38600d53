package wire

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"remshell/job"
)

// What a value from the other end may be (TRUST-7). It is asked once, where the message is
// read; behind that it holds everywhere.
const (
	maxWord         = 256      // bytes of a name
	maxStack        = 16 << 10 // of where a rank is
	maxSentence     = 4 << 10  // of what is told to people
	maxLine         = 60 << 10 // of a line of a log
	maxPath         = 64 << 10 // of what names a file
	maxCPUs         = 1 << 16
	maxCores        = 1 << 14 // no kernel knows half as many
	maxGPUs         = 256
	maxLoad         = 1e6
	maxMemory       = 1 << 60
	maxBound        = 1 << 61 // limits.Unlimited
	maxTime         = 1 << 61 // in ns, 73 years: the sum of two is still a time
	maxOnNode       = 1 << 16 // ranks of one node
	maxEntries      = 4096    // of a ledger
	maxLeftovers    = 4096    // that a node frees
	maxClaimedRanks = 1 << 16 // in all claims of a ledger
	maxClaimedCPUs  = 1 << 18 // CPUs of these
	maxWords        = 1 << 16 // of a command
	maxPairs        = 1 << 12
	maxFromLauncher = 1 << 24 // what mpiexec sends, which is bounded by its frame
)

// initialCapacity is for how many elements there is room before the first was read.
const initialCapacity = 64

// A valueRange is what a number may be, and what it is called if it is not.
type valueRange struct {
	name      string
	low, high int64
}

func (s valueRange) contains(n int64) bool { return s.low <= n && n <= s.high }

func (s valueRange) errorFor(n int64) error { return valueError(fmt.Sprintf("%s %d", s.name, n)) }

// The spans that several messages know.
var (
	rankRange         = valueRange{"rank", 0, math.MaxInt32}
	rankOrNone        = valueRange{"rank", -1, math.MaxInt32}
	sizeRange         = valueRange{"size", 0, math.MaxInt32}
	countRange        = valueRange{"count", 0, 1e6}
	codeRange         = valueRange{"code", 0, 255}
	signalRange       = valueRange{"signal", 0, 64}
	pmiStateRange     = valueRange{"state of PMI", 0, 3}
	streamRange       = valueRange{"stream", 0, 2}
	requestIDRange    = valueRange{"question", 0, 1 << 53}
	pidRange          = valueRange{"pid", 0, 1 << 22} // PID_MAX_LIMIT of the kernel
	ticketRange       = valueRange{"ticket", 0, math.MaxInt64}
	uidRange          = valueRange{"uid", 0, math.MaxUint32}
	uidOrAnyRange     = valueRange{"uid", job.AnyOwner, math.MaxUint32}
	slotRange         = valueRange{"slot", 0, math.MaxInt32}
	cpuRange          = valueRange{"CPU", 0, maxCPUs - 1}
	numaNodeRange     = valueRange{"NUMA node", 0, maxCPUs - 1}
	numaNodeOrNone    = valueRange{"NUMA node", -1, maxCPUs - 1} // -1, here and below: unknown
	packageOrNone     = valueRange{"package", -1, maxCPUs - 1}
	cacheOrNone       = valueRange{"cache", -1, maxCPUs - 1}
	bytesRange        = valueRange{"bytes", 0, maxMemory}
	blocksRange       = valueRange{"blocks", 0, maxMemory}
	limitOrNone       = valueRange{"limit", -1, math.MaxInt64} // -1: there is none
	terminalSizeRange = valueRange{"size of a terminal", 0, math.MaxUint16}
)

// A length is how many bytes a text may have, or elements a list, and what they are called.
type length struct {
	name string
	max  int
}

func (l length) errorFor(n int) error { return valueError(fmt.Sprintf("%s of %d bytes", l.name, n)) }

// truncate makes text of people fit: a little shorter than it may be, so that some have room in
// one frame.
func (l length) truncate(text string) string {
	const dots = "..."
	text = strings.ToValidUTF8(text, "\ufffd")
	most := l.max - l.max/64
	if len(text) <= most {
		return text
	}
	end := most - len(dots)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}

// Texts that programs read, which nobody cuts, and one that people do.
var (
	pathLength       = length{"path", maxPath}
	markLength       = length{"word", 64}
	nameLength       = length{"name", maxSentence}
	valueLength      = length{"value", 64 << 10}
	keyLength        = length{"key", 511}
	fenceIDLength    = length{"fence", 960 << 10} // 65,536 ranges of ranks
	busAddressLength = length{"address", 64}
	labelLength      = length{"label", job.MaxLabel}
	unboundedLength  = length{"text", maxUnbounded}
	logLineLength    = length{"line", maxLine}
)

// cpuSet is a set of numbers below maxCPUs. It has room for those up to its largest alone: every
// connection of a large job reads CPUs at some time, and what a goroutine once had on its
// stack, it keeps.
type cpuSet []uint64

// add takes a number in; it is false if it was there before.
func (s *cpuSet) add(n int) bool {
	if short := n/64 + 1 - len(*s); short > 0 {
		*s = append(*s, make([]uint64, short)...)
	}
	word, bit := &(*s)[n/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// MaxMarks is how many words may lie open under one tag; more than there are names of one
// machine.
const MaxMarks = 100
