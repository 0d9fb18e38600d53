//go:build linux

package rpc

import (
	"context"

	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// HelpTexts asks mpiexec whether any rank of the job has printed a help text of an MPI library already (PMIX-48).
type HelpTexts struct{ pipeline[*wire.ShowHelpReply] }

// maxHelpTexts is how many such requests of a node mpiexec handles at once (TRUST-4). Further ones wait here.
const maxHelpTexts = 1 << 6

// NewHelpTexts returns HelpTexts that send messages to mpiexec by send.
func NewHelpTexts(send func(wire.Message) error) *HelpTexts {
	return &HelpTexts{pipeline[*wire.ShowHelpReply]{maxInFlight: maxHelpTexts, send: send}}
}

// WasPrinted reports whether a rank of the job has printed a text on this topic already. It is false for a text
// without a topic, for a topic too long to ask about, and if there is no reply.
func (t *HelpTexts) WasPrinted(ctx context.Context, rank int, of message.Topic) bool {
	if of.File == "" || len(of.File) > wire.MaxHelpTopic || len(of.Name) > wire.MaxHelpTopic {
		return false
	}
	newMessage := func(id int) wire.Message { return &wire.ShowHelp{ID: id, Rank: rank, File: of.File, Topic: of.Name} }
	reply, err := t.call(ctx, newMessage, nil)
	return err == nil && reply.AlreadyShown
}

// Deliver passes a reply to the request that waits for it.
func (t *HelpTexts) Deliver(m *wire.ShowHelpReply) { t.pipeline.Deliver(m.ID, m) }
