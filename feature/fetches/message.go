/*
Package fetches is the feature of mpiexec by which a rank gets data that a rank on another node has committed (rule
PMIX-62). The feature serves each PMIx_Get of data that no fence has exchanged. mpiexec forwards the requests and
the replies to the ranks' nodes, and keeps no data.

	rank --> its PMIx server --Fetch--> mpiexec --Fetch--> the PMIx server of the other rank's node
	                         <--Fetched-        <--Fetched-- once that rank has committed the key
*/
package fetches

import (
	"math"

	"remshell/launch/node"
	"remshell/wire"
)

// maxData is the maximum number of bytes that a rank may commit for other ranks.
const maxData = 16 << 20

// Fetch requests all data that a rank has committed. The reply comes when the data includes Key. The sender chooses
// ID, and the reply repeats it. Timeout is the maximum time to wait, in seconds. 0 means the default of rule PMIX-33.
type Fetch struct {
	ID      int
	Group   string
	Rank    int    // in its group
	Key     string // empty: any key
	Timeout int
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Fetch) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Word(&m.Group, "group")
	c.Num(&m.Rank, wire.RankRange)
	c.Text(&m.Key, wire.Length{Name: "key", Max: 511})
	c.Num(&m.Timeout, wire.Range{Name: "timeout", Low: 0, High: math.MaxInt32})
}

// Fetched is the reply to Fetch. If Found is false, the rank did not commit the key within the timeout. If
// Err is set, the request could not be forwarded, or its reply could not be sent back.
type Fetched struct {
	ID    int
	Found bool
	Data  []byte
	Err   string
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Fetched) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Bool(&m.Found)
	c.Bytes(&m.Data, wire.Length{Name: "data", Max: maxData})
	c.Sentence(&m.Err, "error")
}

// maxUnanswered is the maximum number of Fetch messages from a node that have no reply yet (rule PMIX-63). The helper
// queues further messages.
const maxUnanswered = 1 << 12

// openFetches are the Fetch messages in progress that one helper has sent or received.
type openFetches struct {
	node.RankRequests              // of the node's ranks
	forOthers         map[int]bool // requests of other nodes that the helper has not answered, by mpiexec's ID
}

func init() {
	wire.Register[Fetch](91, wire.Row{Sender: wire.Either, Phase: wire.Running, MaxBody: 4 << 10, Example: func(int) wire.Message {
		return &Fetch{ID: 1, Group: "g", Key: "k"}
	}})
	wire.Register[Fetched](92, wire.Row{Sender: wire.Either, Phase: wire.Running, MaxBody: maxData + 8<<10, Example: func(int) wire.Message {
		return &Fetched{ID: 1, Data: []byte("d"), Err: "e"}
	}})
	node.Admit(checkFetch)
	node.AdmitIf(checkFetched)
	node.OnSend(func(v *node.Validator, m *Fetch) {
		open := node.StateOf[openFetches](v)
		if open.forOthers == nil {
			open.forOthers = make(map[int]bool)
		}
		open.forOthers[m.ID] = true
	})
	node.OnSend(func(v *node.Validator, _ *Fetched) { node.StateOf[openFetches](v).CountReply() })
}

// checkFetch checks a request for the data that a rank of another node has committed. The returned message is nil if
// mpiexec must ignore the request.
func checkFetch(v *node.Validator, m *Fetch) (wire.Message, error) {
	g := v.FindGroup(m.Group)
	switch {
	case g == nil: // the group is on other nodes only; mpiexec knows whether it exists
		if err := v.CheckStarted(m); err != nil {
			return nil, err
		}
	case g.IsPlanned():
		return nil, node.TooEarly(m)
	case m.Rank >= g.Size():
		return nil, node.NotOurRank(g.First() + m.Rank)
	case v.HasRank(g, m.Rank):
		return nil, node.InvalidValue(m, "rank", m.Rank)
	}
	open := node.StateOf[openFetches](v)
	if err := open.CheckNext(m, m.ID, maxUnanswered, "Fetches"); err != nil {
		return nil, err
	}
	return open.Count(v.UnlessDrained(v.UnlessEnding(m)))
}

// checkFetched checks a reply that contains the data of one of the node's ranks. It returns an error unless m
// is the reply to a pending request, so that a helper can reply only for its own ranks (rule TRUST-3).
func checkFetched(v *node.Validator, m *Fetched) error {
	open := node.StateOf[openFetches](v)
	if !open.forOthers[m.ID] {
		return node.ErrNotAsked
	}
	delete(open.forOthers, m.ID)
	return nil
}
