//go:build linux

package rpc

import (
	"context"

	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// HelpTexts asks mpiexec whether any rank of the job has printed a help text of an MPI library already (PMIX-48).
type HelpTexts struct{ requests pipeline[bool] }

// maxHelpTexts is how many such requests of a node mpiexec handles at once (TRUST-4). Further ones wait here.
const maxHelpTexts = 1 << 6

// NewHelpTexts returns HelpTexts that send messages to mpiexec by send.
func NewHelpTexts(send func(wire.Message) error) *HelpTexts {
	return &HelpTexts{pipeline[bool]{maxInFlight: maxHelpTexts, send: send}}
}

// WasPrinted reports whether a rank of the job has printed a text on this topic already. It is false for a text
// without a topic, for a topic too long to ask about, and if there is no reply.
func (t *HelpTexts) WasPrinted(ctx context.Context, rank int, of message.Topic) bool {
	if of.File == "" || len(of.File) > wire.MaxHelpTopic || len(of.Name) > wire.MaxHelpTopic {
		return false
	}
	answer := make(chan bool, 1)
	newMessage := func(id int) wire.Message { return &wire.ShowHelp{ID: id, Rank: rank, File: of.File, Topic: of.Name} }
	if !t.requests.addRequest(newMessage, func(known bool) { answer <- known }) {
		return false
	}
	select {
	case known := <-answer:
		return known
	case <-ctx.Done():
		return false
	}
}

// Deliver passes a reply to the request that waits for it.
func (t *HelpTexts) Deliver(m *wire.ShowHelpReply) { t.requests.deliverReply(m.ID, m.AlreadyShown) }

// Fail answers false to all requests, now and later.
func (t *HelpTexts) Fail() { t.requests.failAll(false) }
