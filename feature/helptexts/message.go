/*
Package helptexts is the feature of mpiexec that prints the help texts which MPI libraries of ranks send with
PMIx_Log. Each text is printed once for all ranks of the job, and mpiexec counts the repetitions (rule PMIX-48).

	rank --PMIx_Log--> its helper --ShowHelp------> mpiexec: was this text printed before?
	                      |       <--ShowHelpReply--   | yes: count it
	                      |                            '-- 5 s later, or at the end --> (mpi-abort: the same from 3 more ranks)
	                      '-- no: after what the rank has written to its stderr or stdout
*/
package helptexts

import (
	"remshell/launch/node"
	"remshell/wire"
)

// maxTopic is the maximum length, in bytes, of a topic and of a file name in ShowHelp.
const maxTopic = 511

// ShowHelp asks whether to print a help text of a rank's MPI library. File and Topic identify the text. Each text is
// printed only once in a job. The helper chooses ID, and the reply repeats it.
type ShowHelp struct {
	ID          int
	Rank        int
	File, Topic string
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *ShowHelp) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Num(&m.Rank, wire.RankRange)
	c.Text(&m.File, wire.Length{Name: "file", Max: maxTopic})
	c.Text(&m.Topic, wire.Length{Name: "name", Max: maxTopic})
}

// ShowHelpReply is the reply to ShowHelp. AlreadyShown means that the text was printed before, and that
// mpiexec has only counted the repetition.
type ShowHelpReply struct {
	ID           int
	AlreadyShown bool
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *ShowHelpReply) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Bool(&m.AlreadyShown)
}

// maxUnanswered is the maximum number of ShowHelp messages from a node that have no reply yet (rule TRUST-4). The
// helper queues further messages.
const maxUnanswered = 64

// openTexts are the ShowHelp messages of one connection that have no reply yet.
type openTexts struct{ node.RankRequests }

func init() {
	wire.Register[ShowHelp](95, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 2 << 10, Example: func(rank int) wire.Message {
		return &ShowHelp{ID: 1, Rank: max(rank, 0), File: "f", Topic: "n"}
	}})
	wire.Register[ShowHelpReply](96, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 64, Example: func(int) wire.Message {
		return &ShowHelpReply{ID: 1}
	}})
	node.Admit(checkShowHelp)
	node.OnSend(func(v *node.Validator, _ *ShowHelpReply) { node.StateOf[openTexts](v).CountReply() })
}

// checkShowHelp checks the question whether to print a help text of a rank's library. It accepts questions until all
// output of the node has arrived, because most help texts come when the job ends. The returned message is nil if
// mpiexec must ignore the question.
func checkShowHelp(v *node.Validator, m *ShowHelp) (wire.Message, error) {
	switch rank := v.FindRank(m.Rank); {
	case rank == nil:
		return nil, node.NotOurRank(m.Rank)
	case rank.IsPlanned():
		return nil, node.TooEarly(m)
	}
	texts := node.StateOf[openTexts](v)
	if err := texts.CheckNext(m, m.ID, maxUnanswered, "requests"); err != nil {
		return nil, err
	}
	return texts.Count(v.UnlessDrained(m, nil))
}
