package bfrops

// A Type is the type of an element (pmix-wire.md 5).
type Type uint16

// These are the types of bfrops v3, the third version of PMIx's encoding.
const (
	Undefined        Type = 0 // a value without content
	Bool             Type = 1
	Byte             Type = 2
	String           Type = 3
	Size             Type = 4
	PID              Type = 5
	Int              Type = 6
	Int8             Type = 7
	Int16            Type = 8
	Int32            Type = 9
	Int64            Type = 10
	Uint             Type = 11
	Uint8            Type = 12
	Uint16           Type = 13
	Uint32           Type = 14
	Uint64           Type = 15
	Float            Type = 16
	Double           Type = 17
	TimeVal          Type = 18
	Time             Type = 19
	Status           Type = 20
	ValueType        Type = 21
	ProcType         Type = 22
	App              Type = 23
	InfoType         Type = 24
	PData            Type = 25
	Buffer           Type = 26
	ByteObject       Type = 27
	KVal             Type = 28
	Persistence      Type = 30
	Pointer          Type = 31
	Scope            Type = 32
	DataRange        Type = 33
	Command          Type = 34
	InfoDirectives   Type = 35
	DataType         Type = 36
	ProcState        Type = 37
	ProcInfo         Type = 38
	DataArray        Type = 39
	ProcRank         Type = 40
	Query            Type = 41
	CompressedString Type = 42
	AllocDirective   Type = 43
	IOFChannel       Type = 45
	Envar            Type = 46
)

// An elementSize is the size of an element in bytes. If elements of a type differ in size, it is the smallest
// size.
type elementSize struct {
	bytes int
	fixed bool
}

// elementSizes contains the sizes of all types that an element can have. Undefined is not among them, because its
// elements would have no bytes, so that any number of them would fit into a message.
var elementSizes = [...]elementSize{
	Bool: {1, true}, Byte: {1, true}, Int8: {1, true}, Uint8: {1, true},
	Int16: {2, true}, Uint16: {2, true},
	Int32: {4, true}, Uint32: {4, true},
	Int64: {8, true}, Uint64: {8, true}, Time: {8, true},
	TimeVal: {16, true}, Status: {4, true}, ProcRank: {4, true}, InfoDirectives: {4, true},
	Persistence: {1, true}, Pointer: {1, true}, Scope: {1, true}, DataRange: {1, true}, Command: {1, true},
	ProcState: {1, true}, AllocDirective: {1, true}, DataType: {2, true}, IOFChannel: {2, true},

	Size: {3, false}, PID: {3, false}, Int: {3, false}, Uint: {3, false},
	String: {4, false}, Float: {4, false}, Double: {4, false},
	ByteObject: {3, false}, CompressedString: {3, false}, Buffer: {4, false},
	ValueType: {2, false}, ProcType: {8, false}, KVal: {6, false}, InfoType: {10, false}, PData: {14, false},
	DataArray: {5, false}, Query: {7, false}, Envar: {9, false}, ProcInfo: {20, false}, App: {21, false},
}

// elementSizeOf returns the size of elements of a type. It returns false for Undefined and for unknown types.
func elementSizeOf(t Type) (elementSize, bool) {
	if int(t) >= len(elementSizes) || elementSizes[t].bytes == 0 {
		return elementSize{}, false
	}
	return elementSizes[t], true
}

// A Rank is the number of a process in its namespace, or one of the constants below.
type Rank uint32

// These are values of Rank that do not identify a single process.
const (
	Wildcard   Rank = 0xfffffffe // all ranks of the namespace
	NoRank     Rank = 0xffffffff // undefined
	LocalNode  Rank = 0xfffffffd
	Invalid    Rank = 0xfffffffc
	LocalPeers Rank = 0xfffffffb
)

// A Proc identifies a process by its namespace and rank. With rank Wildcard it stands for all processes of
// the namespace.
type Proc struct {
	Namespace string // at most MaxNamespace bytes
	Rank      Rank
}

// An Info is a key with a value. It is used for options and data, in requests and replies.
type Info struct {
	Key   string // at most MaxKey bytes
	Flags uint32 // ignored: PMIx 4.2.2 sends uninitialized memory (PMIX-27)
	Value Value
}

// A Pair is a key and its value. In PMIx it is called KVAL.
type Pair struct {
	Key   string // at most MaxKey bytes
	Value Value
}

// A Datum is a result of looking up a published name. In PMIx it is called PDATA.
type Datum struct {
	Publisher Proc
	Pair
}

// These are the limits of a message (pmix-wire.md 11).
const (
	MaxNamespace = 255    // bytes
	MaxKey       = 511    // bytes; also of the ID of a PMIx group
	MaxProcs     = 65_536 // entries of a list
	MaxInfos     = 1_024  // options of a request, keys of a look-up, queries, event codes
	maxDepth     = 8      // nesting depth of values and arrays
)
