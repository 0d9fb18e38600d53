//go:build linux

package rpc

import (
	"context"

	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// Notices sends events of ranks to mpiexec, which passes them on to other nodes.
type Notices struct{ Pipeline[*wire.Notified] }

// maxNotices is how many events of a node mpiexec handles at once (TRUST-4). Further ones wait here.
const maxNotices = 1 << 6

// NewNotices returns Notices that send messages to mpiexec by send.
func NewNotices(send func(wire.Message) error) *Notices {
	return &Notices{Pipeline[*wire.Notified]{maxInFlight: maxNotices, send: send}}
}

// Notify implements pmix.Notifier.
func (n *Notices) Notify(e pmix.Event, reply func(s message.Status)) {
	newMessage := func(id int) wire.Message {
		return &wire.Notify{ID: id, Group: e.Group, Rank: e.Rank, Code: int(e.Code), To: string(e.Targets), Infos: e.Infos}
	}
	n.Add(context.Background(), newMessage, func(_ *wire.Notified, err error) {
		if err != nil {
			reply(message.Failed)
			return
		}
		reply(message.Success)
	})
}

// Deliver reports that an event was passed on.
func (n *Notices) Deliver(m *wire.Notified) { n.Pipeline.Deliver(m.ID, m) }
