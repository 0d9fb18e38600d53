package wire

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"remshell/job"
)

// These constants limit the values in messages from the other side (rule TRUST-7). Each value is checked once, when
// the message is read, so later code can rely on the limits.
const (
	maxWord         = 256      // bytes of a name
	maxSentence     = 4 << 10  // bytes of a text for people
	maxLine         = 60 << 10 // bytes of a line of a log
	maxNodeSettings = 10 << 10 // bytes of a job.NodeSettings: its names, its reason and their lengths
	maxPath         = 64 << 10 // bytes of a path
	maxCPUs         = 1 << 16
	maxCores        = 1 << 14 // more than twice what any kernel supports
	maxGPUs         = 256
	maxLoad         = 1e6
	maxMemory       = 1 << 60
	maxBound        = 1 << 61 // limits.Unlimited
	maxTime         = 1 << 61 // in ns, 73 years: the sum of two is still a time
	maxEntries      = 4096    // claims and tickets of a ledger
	maxClaimedRanks = 1 << 16 // in all claims of a ledger
	maxClaimedCPUs  = 1 << 18 // CPUs in all claims of a ledger
	maxGangs        = 256     // of a node
	maxGangCPUs     = 1 << 15 // CPUs in all claims of gangs
	maxFromLauncher = 1 << 24 // elements of a list from mpiexec; the frame's size is the real bound
)

// MaxOnNode is the maximum number of ranks on one node.
const MaxOnNode = 1 << 16

// initialCapacity is the maximum number of elements for which a list allocates memory before any element has been
// read.
const initialCapacity = 64

// A Range is the smallest and largest valid value of a number, with the number's name for error messages.
type Range struct {
	Name      string
	Low, High int64
}

func (s Range) contains(n int64) bool { return s.Low <= n && n <= s.High }

func (s Range) errorFor(n int64) error { return ValueError(fmt.Sprintf("%s %d", s.Name, n)) }

// These are the valid ranges of numbers that occur in several messages.
var (
	RankRange         = Range{"rank", 0, math.MaxInt32}
	RankOrNone        = Range{"rank", -1, math.MaxInt32}
	SizeRange         = Range{"size", 0, math.MaxInt32}
	CountRange        = Range{"count", 0, 1e6}
	codeRange         = Range{"code", 0, 255}
	SignalRange       = Range{"signal", 0, 64}
	pmiStateRange     = Range{"state of PMI", 0, 3}
	streamRange       = Range{"stream", 0, 2}
	RequestIDRange    = Range{"request ID", 0, 1 << 53}
	pidRange          = Range{"pid", 0, 1 << 22} // PID_MAX_LIMIT of the kernel
	ticketRange       = Range{"ticket", 0, math.MaxInt64}
	uidRange          = Range{"uid", 0, math.MaxUint32}
	uidOrAnyRange     = Range{"uid", job.AnyOwner, math.MaxUint32}
	slotRange         = Range{"slot", 0, math.MaxInt32}
	cpuRange          = Range{"CPU", 0, maxCPUs - 1}
	numaNodeRange     = Range{"NUMA node", 0, maxCPUs - 1}
	numaNodeOrNone    = Range{"NUMA node", -1, maxCPUs - 1} // -1, here and below: unknown
	packageOrNone     = Range{"package", -1, maxCPUs - 1}
	cacheOrNone       = Range{"cache", -1, maxCPUs - 1}
	BytesRange        = Range{"bytes", 0, maxMemory}
	blocksRange       = Range{"blocks", 0, maxMemory}
	limitOrNone       = Range{"limit", -1, math.MaxInt64} // -1: there is none
	terminalSizeRange = Range{"terminal size", 0, math.MaxUint16}
)

// A Length is the maximum size of a string in bytes, or of a list in elements, with a name for error messages.
type Length struct {
	Name string
	Max  int
}

func (l Length) errorFor(n int) error { return ValueError(fmt.Sprintf("%s of %d bytes", l.Name, n)) }

// truncate shortens a string meant for people to somewhat less than l.Max bytes, so that several such strings fit into
// one frame. It replaces invalid UTF-8.
func (l Length) truncate(text string) string {
	const dots = "..."
	text = strings.ToValidUTF8(text, "\ufffd")
	most := l.Max - l.Max/64
	if len(text) <= most {
		return text
	}
	end := most - len(dots)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}

// These are the maximum lengths of strings meant for programs, which are never truncated, and of log lines.
var (
	pathLength       = Length{"path", maxPath}
	markLength       = Length{"mark", 64}
	controlIDLength  = Length{"ID", 64}
	nameLength       = Length{"name", maxSentence}
	fenceIDLength    = Length{"fence", 960 << 10} // 65,536 ranges of ranks
	busAddressLength = Length{"address", 64}
	labelLength      = Length{"label", job.MaxLabel}
	unboundedLength  = Length{"text", maxUnbounded}
	logLineLength    = Length{"line", maxLine}
)

// A cpuSet is a set of CPU numbers below maxCPUs. It is a bitmap that grows with the largest number in the set.
// A local array of the full size would enlarge the stack of each goroutine that reads a connection. A large job
// has thousands of these goroutines.
type cpuSet []uint64

// add adds n to the set and reports whether n is new.
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

// MaxMarks is the maximum number of marks with the same tag that a helper reads (WriteMark, ReadMarks). A machine has
// one mark for each of its names, and no machine has so many names.
const MaxMarks = 100
