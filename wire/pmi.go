package wire

import (
	"math"

	"remshell/pmiserver/spawn"
)

/*
What the PMI servers of the nodes need of each other, and of mpiexec.

	mpiexec                                      helper
	   | <----------------------------------- Fence   what the local ranks put
	   | Fenced ---------------------------------->   what all ranks put
	   | <----------------------------- NameRequest   a rank publishes, or looks up
	   | NameReply ------------------------------->
	   | NamePublished --------------------------->   a name is there that was awaited
	   | <----------------------------------- Spawn   a rank wants more ranks
	   | Spawned --------------------------------->
	   | <-------------------------- RankMapRequest   a rank asks which are where
	   | RankMap --------------------------------->
	   | GroupEnded ------------------------------>   a group of others, of which it was told
	   | <----------------------------------- Fetch   a rank wants what one of another node has committed
	   | Fetch ----------------------------------->   one of another node wants it of a rank there
	   | <--------------------------------- Fetched
	   | Fetched --------------------------------->
	   | <---------------------------------- Notify   a rank tells others of an event
	   | Notify ---------------------------------->   one of another node does
	   | Notified -------------------------------->
	   | FailedRanks ----------------------------->   ranks of a group ended by failing, and the others go on
	   | <-------------------------------- ShowHelp   a rank's library has something to say
	   | ShowHelpReply --------------------------->   whether another rank has said it
	   | <------------------------------- PMIReport   a rank aborts, or breaks off

Fences and questions are few, and need no credit: a node has one barrier of a group open, and so
many fences of PMIx and questions as TRUST-4 says.
*/

// A PMIEvent is what a PMI message tells. Each ends the job, sooner or later.
type PMIEvent int

// The events.
const (
	PMIAborted       PMIEvent = iota + 1 // the rank asked for the end of the job
	PMIBarrierBroken                     // a barrier can never complete
	PMIMalformed                         // the rank said what no client says
	PMIDisconnected                      // the rank's connection ended before finalize
	PMIWaits                             // the rank is the first of its group on the node to wait for the whole group by PMI without having spoken PMIx
	PMIxWaits                            // or by PMIx without having spoken PMI
)

// A NameOperation is what is to be done with a name.
type NameOperation int

// The operations.
const (
	Publish NameOperation = iota + 1
	Lookup
	Unpublish
	LookupWait // as Lookup; if the name is not there, Posted will tell when it is
)

// PMIReport is news about a rank that the PMI server noticed.
type PMIReport struct {
	Rank  int
	Event PMIEvent
	Code  int    // of an abort, 0 to 255
	Text  string // for people
}

func (m *PMIReport) fields(c *codec) {
	c.num(&m.Rank, rankOrNone)
	c.num((*int)(&m.Event), valueRange{"event", int64(PMIAborted), int64(PMIxWaits)})
	c.num(&m.Code, codeRange)
	c.sentence(&m.Text, "text")
}

// Fence brings what the ranks of one node put since the last fence. ID names its members and
// how often they have met, as pmiserver/fence has it. With Late it brings nothing: the time of a rank here
// is over, or mpiexec has said so of one elsewhere; Joined, if it is said for the second time, as the node had
// brought its part before.
type Fence struct {
	ID     string
	Blob   []byte
	Late   bool
	Joined bool
}

func (m *Fence) fields(c *codec) {
	c.text(&m.ID, fenceIDLength)
	c.blob(&m.Blob)
	c.boolean(&m.Late)
	c.boolean(&m.Joined)
}

// Fenced answers Fence with what each node brought, or says that the fence was given up (Late), also to
// a node that has not come to it, which then says Fence with Late. Deflated are the blobs as a
// list, deflated, and Size is its length before; see FrameFor and Inflate.
type Fenced struct {
	ID       string
	Blobs    [][]byte
	Err      string
	Size     int
	Deflated []byte
	Late     bool
}

func (m *Fenced) fields(c *codec) {
	c.text(&m.ID, fenceIDLength)
	list(c, &m.Blobs, length{"blobs", maxBlobs}, (*codec).blob)
	c.sentence(&m.Err, "error")
	c.num(&m.Size, valueRange{"bytes", 0, maxUnbounded})
	c.blob(&m.Deflated)
	c.boolean(&m.Late)
}

// NameRequest is a rank's request to the table of published names, of which a job has one.
// ID is the helper's, for the answer. What is published is told to ranks that speak PMI as Port,
// and to those that speak PMIx as Value, which has its publisher in it; Once, if the first who
// looks it up shall be the last.
type NameRequest struct {
	ID            int
	Op            NameOperation
	Service, Port string
	Value         []byte
	FirstReadOnly bool
}

func (m *NameRequest) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.num((*int)(&m.Op), valueRange{"operation", int64(Publish), int64(LookupWait)})
	c.text(&m.Service, nameLength)
	c.text(&m.Port, nameLength)
	c.bytes(&m.Value, valueLength)
	c.boolean(&m.FirstReadOnly)
}

// NameReply answers Name: whether it was published, found or withdrawn, and what was found. With Once it is not
// in the table any more: who cannot make use of it publishes it again.
type NameReply struct {
	ID            int
	OK            bool
	Port, Err     string
	Value         []byte
	FirstReadOnly bool
}

func (m *NameReply) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.boolean(&m.OK)
	c.text(&m.Port, nameLength)
	c.sentence(&m.Err, "error")
	c.bytes(&m.Value, valueLength)
	c.boolean(&m.FirstReadOnly)
}

// NamePublished tells that a name has been published for which the node has asked in vain; somebody
// else may take it first.
type NamePublished struct{ Service string }

func (m *NamePublished) fields(c *codec) { c.text(&m.Service, nameLength) }

// Spawn asks for more ranks, on behalf of one of the node's. ID is the helper's, for
// the answer. Fault is why it cannot be done: a file that the request names, and that
// the helper was to read.
type Spawn struct {
	ID      int
	Request spawn.Request
	Fault   string
}

func (m *Spawn) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.word(&m.Request.Group, "group")
	c.num(&m.Request.Rank, rankRange)
	c.boolean(&m.Request.PMIx)
	list(c, &m.Request.Commands, length{"commands", maxPairs}, (*codec).command)
	list(c, &m.Request.Preputs, length{"preputs", maxPairs}, (*codec).pair)
	c.sentence(&m.Fault, "fault")
}

// Spawned answers Spawn when all of them run, or says why none does: Full, if for want of room.
// Codes are those of spawn.Spawner.
type Spawned struct {
	ID    int
	Group string
	Codes []int
	Err   string
	Full  bool
}

func (m *Spawned) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.word(&m.Group, "group")
	c.nums(&m.Codes, length{"codes", maxFromLauncher}, valueRange{"code", math.MinInt32, math.MaxInt32})
	c.sentence(&m.Err, "error")
	c.boolean(&m.Full)
}

// RankMapRequest asks which ranks of a group of the job are where: for PMIx once for each group and node that
// has clients which want to know, and else on behalf of a rank, as only old clients ask. ID is the
// helper's, for the answer.
type RankMapRequest struct {
	ID    int
	Group string
}

func (m *RankMapRequest) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.word(&m.Group, "group")
}

// RankMap answers Peers: the nodes of the group, as the user wrote them, of each rank the number
// of its node among them, how many ranks each section has, and how many each node has had of the groups
// with lower numbers. There are none of a group that is over.
type RankMap struct {
	ID           int
	Group        string
	Nodes        []string
	NodeOfRank   []int
	AppSizes     []int
	EarlierRanks []int
}

func (m *RankMap) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.word(&m.Group, "group")
	c.texts(&m.Nodes, length{"names", maxFromLauncher}, nameLength)
	c.nums(&m.NodeOfRank, length{"sizes", maxFromLauncher}, sizeRange)
	c.nums(&m.AppSizes, length{"sections", maxFromLauncher}, sizeRange)
	c.nums(&m.EarlierRanks, length{"nodes", maxFromLauncher}, rankRange)
}

// GroupEnded tells that nothing is left of a group which has no ranks on the node, and of which it has asked.
type GroupEnded struct{ Group string }

func (m *GroupEnded) fields(c *codec) { c.word(&m.Group, "group") }

// MaxFetched is how many bytes a rank may have committed for others.
const MaxFetched = 16 << 20

// Fetch asks for all that a rank has committed for others, when it has a key (PMIX-62). ID is the sender's,
// for the answer; mpiexec keeps nothing of what goes through it. Patience is for how
// many seconds the answer is waited for at most; 0: as PMIX-33 has it if nothing is said.
type Fetch struct {
	ID      int
	Group   string
	Rank    int    // in its group
	Key     string // empty: any
	Timeout int
}

func (m *Fetch) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.word(&m.Group, "group")
	c.num(&m.Rank, rankRange)
	c.text(&m.Key, keyLength)
	c.num(&m.Timeout, valueRange{"patience", 0, math.MaxInt32})
}

// Fetched answers Fetch. Without Found the rank has no such key, and will have none in the time
// that was given; with Err it could not be asked, or not be answered.
type Fetched struct {
	ID    int
	Found bool
	Data  []byte
	Err   string
}

func (m *Fetched) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.boolean(&m.Found)
	c.bytes(&m.Data, length{"data", MaxFetched})
	c.sentence(&m.Err, "error")
}

// Notify tells of an event, by its code. To are the members that may hear of it, as pmiserver/fence has them;
// empty: all. Infos are as PMIx has them. ID is the helper's, for the answer; what mpiexec passes on has
// none.
type Notify struct {
	ID    int
	Group string
	Rank  int // in its group
	Code  int
	To    string
	Infos []byte
}

func (m *Notify) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.word(&m.Group, "group")
	c.num(&m.Rank, rankRange)
	c.num(&m.Code, valueRange{"code", math.MinInt32, math.MaxInt32})
	c.text(&m.To, length{"members", 128 << 10})
	c.bytes(&m.Infos, length{"infos", 64 << 10})
}

// FailedRanks has all ranks of a group that ended by failing so far, while the others go on (job.EndPolicy.KeepAll).
type FailedRanks struct {
	Group string
	Ranks []int // in the group, in the order in which they ended
}

func (m *FailedRanks) fields(c *codec) {
	c.word(&m.Group, "group")
	c.nums(&m.Ranks, length{"ranks", maxFromLauncher}, rankRange)
}

// Notified answers Notify.
type Notified struct{ ID int }

func (m *Notified) fields(c *codec) { c.num(&m.ID, requestIDRange) }

// MaxHelpTopic is how long the name of a text, and that of its file, may be to be asked about.
const MaxHelpTopic = 511

// ShowHelp asks about a text that the library of a rank wants printed, by the file that the text is from and
// its name there: of all ranks of the job that have it to say, one says it (PMIX-48). ID is the helper's, for
// the answer.
type ShowHelp struct {
	ID          int
	Rank        int
	File, Topic string
}

func (m *ShowHelp) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.num(&m.Rank, rankRange)
	c.text(&m.File, length{"file", MaxHelpTopic})
	c.text(&m.Topic, length{"name", MaxHelpTopic})
}

// ShowHelpReply answers Utter: Known, if the text was said, and need not be again; that it came again is counted.
type ShowHelpReply struct {
	ID           int
	AlreadyShown bool
}

func (m *ShowHelpReply) fields(c *codec) {
	c.num(&m.ID, requestIDRange)
	c.boolean(&m.AlreadyShown)
}
