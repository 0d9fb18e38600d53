//go:build linux

package events

import (
	"context"

	"remshell/helper"
	"remshell/helper/rpc"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "events", Attach: attachHelper}) }

// attachHelper makes the session send events of this node's ranks to mpiexec, and deliver events of ranks on other
// nodes.
func attachHelper(s *helper.Session) {
	n := notifier{rpc.NewPipeline[*Notified](maxUnanswered, s.Send)}
	helper.Handle(s, func(m *Notified) { n.Deliver(m.ID, m) })
	helper.Handle(s, func(m *Notify) {
		if server := s.PMIxServer(); server != nil {
			server.DeliverEvent(pmix.Event{Group: m.Group, Rank: m.Rank, Code: int32(m.Code), Targets: fence.Members(m.To), Infos: m.Infos})
		}
	})
	s.Hooks.RequestsEnd.Add(n.Fail)
	s.Providers.Notifier = n
}

// A notifier sends events of this node's ranks to mpiexec. It implements pmix.Notifier.
type notifier struct{ *rpc.Pipeline[*Notified] }

// Notify implements pmix.Notifier: it sends an event of a rank to mpiexec, which forwards the event to other
// nodes.
func (n notifier) Notify(e pmix.Event, reply func(s message.Status)) {
	newMessage := func(id int) wire.Message {
		return &Notify{ID: id, Group: e.Group, Rank: e.Rank, Code: int(e.Code), To: string(e.Targets), Infos: e.Infos}
	}
	n.Add(context.Background(), newMessage, func(_ *Notified, err error) {
		if err != nil {
			reply(message.Failed)
			return
		}
		reply(message.Success)
	})
}
