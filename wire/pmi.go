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

Fences and requests are few and need no credit. Each node has at most one PMI barrier of a group open. Rule TRUST-4
limits the number of its open PMIx fences and requests.
*/

// A PMIEvent is the kind of event in a PMIReport. The events from PMIAborted to PMIDisconnected sooner or
// later end the job.
type PMIEvent int

// These are the kinds of events that a PMI server reports about a rank.
const (
	PMIAborted       PMIEvent = iota + 1 // the rank requested an abort of the job
	PMIBarrierBroken                     // a barrier can never complete
	PMIMalformed                         // the rank sent something that violates the PMI protocol
	PMIDisconnected                      // the rank's connection ended before finalize
	PMIWaits                             // the first rank of its group on the node to wait for the whole group by PMI, without having used PMIx
	PMIxWaits                            // likewise by PMIx, without having used PMI
)

// PMIReport reports an event that a node's PMI server has noticed about a rank.
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

// Fence contains the data that the ranks of one node have put since their last fence. ID identifies the
// participants and counts their fences (pmiserver/fence).
//
// If GivenUp is set, the fence has failed, and there is no data. Either a local rank has timed out, or mpiexec
// has sent Fenced with GivenUp because of a rank on another node. Joined then says whether the node had sent
// its data before the failure.
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

// Fenced is the reply to Fence. It contains the data of each node. If GivenUp is set, the fence has failed. A node
// that has not yet joined the fence then also receives Fenced, and sends Fence with GivenUp in reply. Deflated is
// the compressed list of blobs, and Size is the size of the list before compression (FrameFor, Inflate).
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

// RankMapRequest asks on which node each rank of a group runs. If PMIx clients need the map, a helper sends
// this request once for each group. It sends the request again whenever a client with an old version of PMIx
// asks for the map. The helper chooses ID, and the reply has the same ID.
type RankMapRequest struct {
	AnsweredBy[*RankMap]

	ID    int
	Group string
}

func (m *RankMapRequest) Fields(c *Codec) {
	c.Num(&m.ID, RequestIDRange)
	c.Word(&m.Group, "group")
}

// RankMap is the reply to RankMapRequest. Nodes are the names of the group's nodes, as the user wrote them. NodeOfRank
// contains an index into Nodes for each rank. AppSizes contains the number of ranks of each app context. EarlierRanks
// contains, for each node, the number of ranks on that node that belong to groups with lower numbers. For a group that
// has ended, all lists are empty.
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

// GroupEnded reports the end of a group to a node that runs no rank of the group but has asked for its rank
// map.
type GroupEnded struct{ Group string }

func (m *GroupEnded) Fields(c *Codec) { c.Word(&m.Group, "group") }
