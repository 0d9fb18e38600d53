package wire

/*
Messages between the PMI servers of the nodes and mpiexec.

	mpiexec                                      helper
	   | <----------------------------------- Fence   data that the local ranks put
	   | Fenced ---------------------------------->   data that all ranks put
	   | <-------------------------- RankMapRequest   a rank asks where ranks are
	   | RankMap --------------------------------->
	   | GroupEnded ------------------------------>   a group of other nodes that it knows
	   | <------------------------------- PMIReport   a rank aborts, or loses its connection

Fences and requests are few and need no credit. Each node has at most one PMI barrier of a group open. TRUST-4 limits
the number of its open PMIx fences and requests.
*/

// A PMIEvent is the event that a PMIReport reports. PMIAborted to PMIDisconnected end the job, sooner or later.
type PMIEvent int

// The events.
const (
	PMIAborted       PMIEvent = iota + 1 // the rank requested an abort of the job
	PMIBarrierBroken                     // a barrier can never complete
	PMIMalformed                         // the rank sent something that violates the PMI protocol
	PMIDisconnected                      // the rank's connection ended before finalize
	PMIWaits                             // the first rank of its group on the node to wait for the whole group by PMI, without having used PMIx
	PMIxWaits                            // likewise by PMIx, without having used PMI
)

// PMIReport reports an event about a rank that the PMI server noticed.
type PMIReport struct {
	Rank  int
	Event PMIEvent
	Code  int    // of an abort, 0 to 255
	Text  string // for people
}

func (m *PMIReport) Fields(c *Codec) {
	c.Num(&m.Rank, RankOrNone)
	c.Num((*int)(&m.Event), Range{"event", int64(PMIAborted), int64(PMIxWaits)})
	c.Num(&m.Code, codeRange)
	c.Sentence(&m.Text, "text")
}

// Fence has the data that the ranks of one node put since the last fence. ID names the participants and
// the number of their earlier fences, see pmiserver/fence. With GivenUp there is no data: either the time of a local
// rank is over, or mpiexec has sent GivenUp because of a rank elsewhere. Joined is set in that case if the
// node had already sent its data.
type Fence struct {
	ID      string
	Blob    []byte
	GivenUp bool
	Joined  bool
}

func (m *Fence) Fields(c *Codec) {
	c.Text(&m.ID, fenceIDLength)
	c.Blob(&m.Blob)
	c.Bool(&m.GivenUp)
	c.Bool(&m.Joined)
}

// Fenced is the reply to Fence, with the data of each node. If GivenUp is set, the fence was given up. Nodes that
// have not joined yet receive this, too; such a node then sends Fence with GivenUp. Deflated is the compressed list
// of blobs, and Size its length before compression; see FrameFor and Inflate.
type Fenced struct {
	ID       string
	Blobs    [][]byte
	Err      string
	Size     int
	Deflated []byte
	GivenUp  bool
}

func (m *Fenced) Fields(c *Codec) {
	c.Text(&m.ID, fenceIDLength)
	List(c, &m.Blobs, Length{"blobs", maxBlobs}, (*Codec).Blob)
	c.Sentence(&m.Err, "error")
	c.Num(&m.Size, Range{"bytes", 0, maxUnbounded})
	c.Blob(&m.Deflated)
	c.Bool(&m.GivenUp)
}

// RankMapRequest asks on which nodes the ranks of a group are. A helper sends it once for each group if it has PMIx clients
// that need this, and for each request of an old client. ID is chosen by the helper and repeated in
// the answer.
type RankMapRequest struct {
	AnsweredBy[*RankMap]

	ID    int
	Group string
}

func (m *RankMapRequest) Fields(c *Codec) {
	c.Num(&m.ID, RequestIDRange)
	c.Word(&m.Group, "group")
}

// RankMap answers RankMapRequest. Nodes are the names of the group's nodes, as the user wrote them. NodeOfRank has an index
// into Nodes for each rank, AppSizes the number of ranks of each app context, and EarlierRanks the number of ranks that
// each node has had in groups with lower numbers. All lists are empty for a group that has ended.
type RankMap struct {
	ID           int
	Group        string
	Nodes        []string
	NodeOfRank   []int
	AppSizes     []int
	EarlierRanks []int
}

func (m *RankMap) Fields(c *Codec) {
	c.Num(&m.ID, RequestIDRange)
	c.Word(&m.Group, "group")
	c.Texts(&m.Nodes, Length{"names", maxFromLauncher}, nameLength)
	c.Nums(&m.NodeOfRank, Length{"sizes", maxFromLauncher}, SizeRange)
	c.Nums(&m.AppSizes, Length{"app contexts", maxFromLauncher}, SizeRange)
	c.Nums(&m.EarlierRanks, Length{"nodes", maxFromLauncher}, RankRange)
}

// GroupEnded reports that a group has ended which has no ranks on the node, and which the node asked for in a RankMapRequest.
type GroupEnded struct{ Group string }

func (m *GroupEnded) Fields(c *Codec) { c.Word(&m.Group, "group") }
