//go:build linux

package helptexts

import (
	"context"
	"slices"
	"time"

	"remshell/helper"
	"remshell/helper/rank"
	"remshell/helper/rpc"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "help texts", Attach: attachHelper}) }

// attachHelper makes the session print the help texts of this node's ranks. Each text is printed once for all ranks of
// the job.
func attachHelper(s *helper.Session) {
	q := newRequests(s.Send)
	helper.Handle(s, func(m *ShowHelpReply) { q.Deliver(m.ID, m) })
	s.Hooks.RequestsEnd.Add(q.Fail)
	s.Providers.PrintText = func(ctx context.Context, r *helper.Rank, text message.LogText) {
		if !s.AwaitStarted(r) {
			return
		}
		if slices.Contains(r.Environ(), noAggregation) || !q.wasPrinted(ctx, r.Number, text.Topic) {
			printText(r, text)
		}
	}
}

// noAggregation is the variable that users of Open MPI's launcher set to print the help texts of every
// rank, even if they are equal.
const noAggregation = "OMPI_MCA_orte_base_help_aggregate=0"

// requests asks mpiexec whether any rank of the job has already printed a text.
type requests struct{ *rpc.Pipeline[*ShowHelpReply] }

func newRequests(send func(wire.Message) error) requests {
	return requests{rpc.NewPipeline[*ShowHelpReply](maxUnanswered, send)}
}

// wasPrinted reports whether a rank of the job has already printed a text on this topic. It returns false for
// a text without a topic, for a topic longer than maxTopic, and if mpiexec does not reply.
func (q requests) wasPrinted(ctx context.Context, rank int, topic message.Topic) bool {
	if topic.File == "" || len(topic.File) > maxTopic || len(topic.Name) > maxTopic {
		return false
	}
	newMessage := func(id int) wire.Message { return &ShowHelp{ID: id, Rank: rank, File: topic.File, Topic: topic.Name} }
	reply, err := q.Call(ctx, newMessage, nil)
	return err == nil && reply.AlreadyShown
}

// printText prints a text after the output that the rank has already written to the same stream, standard
// output or standard error. If the stream is closed, the text is lost, as the rank's own output would be.
func printText(r *helper.Rank, text message.LogText) {
	file, terminal := r.OutputFile(text.Stdout)
	stream, err := rank.OpenWriteEnd(file, terminal)
	if err != nil {
		return
	}
	defer stream.Close()
	stream.SetWriteDeadline(time.Now().Add(printTimeout))
	stream.WriteString(text.Text)
}

// printTimeout is how long printText waits until the pipe or terminal of the rank's stream has room for the text.
const printTimeout = 10 * time.Second
