/*
Package events is the feature of mpiexec that forwards events from ranks to ranks on other nodes (PMIx_Notify_event).
The PMIx server of a node delivers events between ranks of the node.

	rank --> its PMIx server --Notify---> mpiexec --Notify--> the PMIx servers of the other nodes that may
	                         <--Notified-   |                 have receivers --> ranks that want such events
	                                        '-- when it is forwarded
*/
package events

import (
	"math"

	"remshell/launch/node"
	"remshell/pmiserver/fence"
	"remshell/wire"
)

// Notify distributes an event. The field To lists the ranks that may receive the event, encoded as in
// pmiserver/fence. An empty To means all ranks. Infos are encoded as in PMIx. The helper chooses ID, and Notified
// repeats it. ID is 0 in a message that mpiexec forwards.
type Notify struct {
	ID    int
	Group string
	Rank  int // in its group
	Code  int
	To    string
	Infos []byte
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Notify) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Word(&m.Group, "group")
	c.Num(&m.Rank, wire.RankRange)
	c.Num(&m.Code, wire.Range{Name: "code", Low: math.MinInt32, High: math.MaxInt32})
	c.Text(&m.To, wire.Length{Name: "members", Max: 128 << 10})
	c.Bytes(&m.Infos, wire.Length{Name: "infos", Max: 64 << 10})
}

// Notified is the reply to Notify, sent when mpiexec has forwarded the event.
type Notified struct{ ID int }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Notified) Fields(c *wire.Codec) { c.Num(&m.ID, wire.RequestIDRange) }

// maxUnanswered is the maximum number of events from a node's ranks that have no reply yet (rule TRUST-4). The helper
// queues further events.
const maxUnanswered = 64

// openEvents are the events of one connection that have no reply yet.
type openEvents struct{ node.RankRequests }

func init() {
	wire.Register[Notify](93, wire.Row{Sender: wire.Either, Phase: wire.Running, MaxBody: 200 << 10, Example: func(rank int) wire.Message {
		return &Notify{ID: 1, Group: "g", Rank: max(rank, 0), Code: -5, To: "g", Infos: []byte("i")}
	}})
	wire.Register[Notified](94, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 64, Example: func(int) wire.Message {
		return &Notified{ID: 1}
	}})
	node.Admit(checkNotify)
	node.OnSend(func(v *node.Validator, _ *Notified) { node.StateOf[openEvents](v).CountReply() })
}

// checkNotify checks an event that a rank of the node sends to others. It accepts the event even if the rank has exited
// since. The returned message is nil if mpiexec must ignore the event.
func checkNotify(v *node.Validator, m *Notify) (wire.Message, error) {
	g := v.FindGroup(m.Group)
	switch {
	case g == nil || m.Rank >= g.Size() || !v.HasRank(g, m.Rank):
		return nil, node.NotOurRank(m.Rank)
	case g.IsPlanned():
		return nil, node.TooEarly(m)
	}
	open := node.StateOf[openEvents](v)
	if err := open.CheckNext(m, m.ID, maxUnanswered, "events"); err != nil {
		return nil, err
	}
	if _, err := fence.Members(m.To).Matcher(); err != nil {
		return nil, node.InvalidValue(m, "number of ranks that get the event", len(m.To))
	}
	return open.Count(v.UnlessDrained(v.UnlessEnding(m)))
}
