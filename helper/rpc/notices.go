//go:build linux

package rpc

import (
	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// Notices carry events of ranks to mpiexec, which passes them on to other nodes.
type Notices struct{ requests pipeline[message.Status] }

// maxNotices is how many events of a node mpiexec takes at once (TRUST-4). Others wait here.
const maxNotices = 1 << 6

// NewNotices returns notices that go to mpiexec by send.
func NewNotices(send func(wire.Message) error) *Notices {
	return &Notices{pipeline[message.Status]{maxInFlight: maxNotices, send: send}}
}

// Notify is that of pmix.Notifier.
func (n *Notices) Notify(e pmix.Event, told func(s message.Status)) {
	question := func(id int) wire.Message {
		return &wire.Notify{ID: id, Group: e.Group, Rank: e.Rank, Code: int(e.Code), To: string(e.Targets), Infos: e.Infos}
	}
	if !n.requests.addRequest(question, told) {
		told(message.Failed)
	}
}

// Deliver says that an event was passed on.
func (n *Notices) Deliver(m *wire.Notified) { n.requests.deliverReply(m.ID, message.Success) }

// Fail ends all that wait, now and later.
func (n *Notices) Fail() { n.requests.failAll(message.Failed) }
