//go:build linux

package rpc

import (
	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// Notices sends events of ranks to mpiexec, which passes them on to other nodes.
type Notices struct{ requests pipeline[message.Status] }

// maxNotices is how many events of a node mpiexec handles at once (TRUST-4). Further ones wait here.
const maxNotices = 1 << 6

// NewNotices returns Notices that send messages to mpiexec by send.
func NewNotices(send func(wire.Message) error) *Notices {
	return &Notices{pipeline[message.Status]{maxInFlight: maxNotices, send: send}}
}

// Notify implements pmix.Notifier.
func (n *Notices) Notify(e pmix.Event, reply func(s message.Status)) {
	newMessage := func(id int) wire.Message {
		return &wire.Notify{ID: id, Group: e.Group, Rank: e.Rank, Code: int(e.Code), To: string(e.Targets), Infos: e.Infos}
	}
	if !n.requests.addRequest(newMessage, reply) {
		reply(message.Failed)
	}
}

// Deliver reports that an event was passed on.
func (n *Notices) Deliver(m *wire.Notified) { n.requests.deliverReply(m.ID, message.Success) }

// Fail fails all events that wait, and all later ones.
func (n *Notices) Fail() { n.requests.failAll(message.Failed) }
