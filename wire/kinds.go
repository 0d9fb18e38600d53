package wire

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

// A Kind is a row of the table of messages (TRUST-4): its name, who sends it, how large a
// body may be, and an empty one.
type Kind struct {
	Name string
	From Side
	Most int
	New  func() Message
}

// vast bounds what has no other measure: what a fence of 1,000 nodes with 64 business cards
// each spreads is some 64 MiB.
const vast = 1 << 30

// table has the row of each kind at its number. The numbers are the protocol: they never
// change their meaning within a Version.
var table = [...]Kind{
	1:  {"Hello", Helper, 4 << 10, blank[Hello]},
	2:  {"Node", Helper, 1 << 20, blank[Node]},
	3:  {"Prepare", Launcher, vast, blank[Prepare]},
	4:  {"Prepared", Helper, 16 << 10, blank[Prepared]},
	5:  {"Refused", Helper, 16 << 10, blank[Refused]},
	6:  {"Start", Launcher, 4 << 10, blank[Start]},
	7:  {"Started", Helper, 256 << 10, blank[Started]},
	8:  {"Data", Either, len(buffer{}), blank[Data]},
	9:  {"Credit", Either, 64, blank[Credit]},
	10: {"Fence", Helper, vast, blank[Fence]},
	11: {"Fenced", Launcher, vast, blank[Fenced]},
	12: {"Signal", Launcher, 16, blank[Signal]},
	13: {"End", Launcher, 64, blank[End]},
	14: {"PMI", Helper, 8 << 10, blank[PMI]},
	15: {"Exited", Helper, 16 << 10, blank[Exited]},
	16: {"Drained", Helper, 4 << 20, blank[Drained]},
	17: {"Log", Helper, 64 << 10, blank[Log]},
	18: {"Ping", Either, 0, blank[Ping]},
	19: {"Bye", Launcher, 0, blank[Bye]},
	20: {"Taken", Helper, 16 << 10, blank[Taken]},
	21: {"Release", Launcher, 4 << 10, blank[Release]},
	22: {"Gate", Launcher, 8 << 10, blank[Gate]},
	23: {"Gated", Helper, 4 << 10, blank[Gated]},
	24: {"Ungate", Launcher, 0, blank[Ungate]},
	25: {"Survey", Launcher, 8 << 10, blank[Survey]},
	26: {"Surveyed", Helper, 1 << 20, blank[Surveyed]},
	27: {"Enqueue", Launcher, 1 << 20, blank[Enqueue]},
	28: {"Queued", Helper, 128 << 10, blank[Queued]},
	29: {"Dequeue", Launcher, 0, blank[Dequeue]},
	30: {"Watch", Launcher, 8 << 10, blank[Watch]},
	31: {"Changed", Helper, 0, blank[Changed]},
	32: {"List", Launcher, 8 << 10, blank[List]},
	33: {"Listed", Helper, 4 << 20, blank[Listed]},
	34: {"Alert", Launcher, 8 << 10, blank[Alert]},
	35: {"Alerted", Helper, 4 << 10, blank[Alerted]},
	36: {"Name", Helper, 256 << 10, blank[Name]},
	37: {"Named", Launcher, 16 << 10, blank[Named]},
	38: {"Spawn", Helper, 256 << 10, blank[Spawn]},
	39: {"Spawned", Launcher, 16 << 20, blank[Spawned]},
	40: {"Prune", Launcher, 4 << 10, blank[Prune]},
	41: {"Resize", Launcher, 64, blank[Resize]},
	42: {"Trace", Helper, 64 << 10, blank[Trace]},
	43: {"Peers", Helper, 4 << 10, blank[Peers]},
	44: {"Peered", Launcher, vast, blank[Peered]},
	47: {"Pass", Launcher, 64, blank[Pass]},
	48: {"Evict", Launcher, 8 << 10, blank[Evict]},
	49: {"Evicted", Helper, 1 << 20, blank[Evicted]},
	50: {"Inspect", Launcher, 64, blank[Inspect]},
	51: {"States", Helper, 8 << 20, blank[States]},
	52: {"Emptied", Helper, 0, blank[Emptied]},
	53: {"Lay", Launcher, 256, blank[Lay]},
	54: {"Laid", Helper, 8 << 10, blank[Laid]},
	55: {"Seek", Launcher, 256, blank[Seek]},
	56: {"Sought", Helper, 8 << 10, blank[Sought]},
	60: {"Examine", Launcher, 1 << 20, blank[Examine]},
	61: {"Examined", Helper, 64 << 10, blank[Examined]},
	62: {"Listen", Launcher, 8 << 10, blank[Listen]},
	63: {"Listening", Helper, 8 << 10, blank[Listening]},
	64: {"Knock", Launcher, 1 << 20, blank[Knock]},
	65: {"Knocked", Helper, 1 << 20, blank[Knocked]},
	70: {"Stage", Launcher, 8 << 20, blank[Stage]},
	71: {"Wanted", Helper, 16 << 10, blank[Wanted]},
	72: {"Piece", Launcher, PieceSize + 64, blank[Piece]},
	73: {"Took", Helper, 16, blank[Took]},
	74: {"Staged", Helper, 16 << 10, blank[Staged]},
}

func (*Hello) kind() byte     { return 1 }
func (*Node) kind() byte      { return 2 }
func (*Prepare) kind() byte   { return 3 }
func (*Prepared) kind() byte  { return 4 }
func (*Refused) kind() byte   { return 5 }
func (*Start) kind() byte     { return 6 }
func (*Started) kind() byte   { return 7 }
func (*Data) kind() byte      { return 8 }
func (*Credit) kind() byte    { return 9 }
func (*Fence) kind() byte     { return 10 }
func (*Fenced) kind() byte    { return 11 }
func (*Signal) kind() byte    { return 12 }
func (*End) kind() byte       { return 13 }
func (*PMI) kind() byte       { return 14 }
func (*Exited) kind() byte    { return 15 }
func (*Drained) kind() byte   { return 16 }
func (*Log) kind() byte       { return 17 }
func (*Ping) kind() byte      { return 18 }
func (*Bye) kind() byte       { return 19 }
func (*Taken) kind() byte     { return 20 }
func (*Release) kind() byte   { return 21 }
func (*Gate) kind() byte      { return 22 }
func (*Gated) kind() byte     { return 23 }
func (*Ungate) kind() byte    { return 24 }
func (*Survey) kind() byte    { return 25 }
func (*Surveyed) kind() byte  { return 26 }
func (*Enqueue) kind() byte   { return 27 }
func (*Queued) kind() byte    { return 28 }
func (*Dequeue) kind() byte   { return 29 }
func (*Watch) kind() byte     { return 30 }
func (*Changed) kind() byte   { return 31 }
func (*List) kind() byte      { return 32 }
func (*Listed) kind() byte    { return 33 }
func (*Alert) kind() byte     { return 34 }
func (*Alerted) kind() byte   { return 35 }
func (*Name) kind() byte      { return 36 }
func (*Named) kind() byte     { return 37 }
func (*Spawn) kind() byte     { return 38 }
func (*Spawned) kind() byte   { return 39 }
func (*Peers) kind() byte     { return 43 }
func (*Peered) kind() byte    { return 44 }
func (*Prune) kind() byte     { return 40 }
func (*Resize) kind() byte    { return 41 }
func (*Trace) kind() byte     { return 42 }
func (*Pass) kind() byte      { return 47 }
func (*Evict) kind() byte     { return 48 }
func (*Evicted) kind() byte   { return 49 }
func (*Inspect) kind() byte   { return 50 }
func (*States) kind() byte    { return 51 }
func (*Emptied) kind() byte   { return 52 }
func (*Lay) kind() byte       { return 53 }
func (*Laid) kind() byte      { return 54 }
func (*Seek) kind() byte      { return 55 }
func (*Sought) kind() byte    { return 56 }
func (*Examine) kind() byte   { return 60 }
func (*Examined) kind() byte  { return 61 }
func (*Listen) kind() byte    { return 62 }
func (*Listening) kind() byte { return 63 }
func (*Knock) kind() byte     { return 64 }
func (*Knocked) kind() byte   { return 65 }
func (*Stage) kind() byte     { return 70 }
func (*Wanted) kind() byte    { return 71 }
func (*Piece) kind() byte     { return 72 }
func (*Took) kind() byte      { return 73 }
func (*Staged) kind() byte    { return 74 }

func blank[M any, P interface {
	*M
	Message
}]() Message {
	return P(new(M))
}

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
func NameOf(m Message) string { return table[m.kind()].Name }
