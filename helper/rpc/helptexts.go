//go:build linux

package rpc

import (
	"context"

	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// HelpTexts ask mpiexec which of what the libraries of ranks have to say was said already, by any rank of the
// job (PMIX-48).
type HelpTexts struct{ requests pipeline[bool] }

// maxHelpTexts is how many texts of a node mpiexec takes at once (TRUST-4). Others wait here.
const maxHelpTexts = 1 << 6

// NewHelpTexts returns texts that go to mpiexec by send.
func NewHelpTexts(send func(wire.Message) error) *HelpTexts {
	return &HelpTexts{pipeline[bool]{maxInFlight: maxHelpTexts, send: send}}
}

// WasPrinted reports whether a text of a rank of the job was said already. One about nothing in particular is not, nor
// one about whose topic nobody can ask; and who gets no answer has to say it.
func (t *HelpTexts) WasPrinted(ctx context.Context, rank int, of message.Topic) bool {
	if of.File == "" || len(of.File) > wire.MaxHelpTopic || len(of.Name) > wire.MaxHelpTopic {
		return false
	}
	answer := make(chan bool, 1)
	question := func(id int) wire.Message { return &wire.ShowHelp{ID: id, Rank: rank, File: of.File, Topic: of.Name} }
	if !t.requests.addRequest(question, func(known bool) { answer <- known }) {
		return false
	}
	select {
	case known := <-answer:
		return known
	case <-ctx.Done():
		return false
	}
}

// Deliver hands an answer to who waits for it.
func (t *HelpTexts) Deliver(m *wire.ShowHelpReply) { t.requests.deliverReply(m.ID, m.AlreadyShown) }

// Fail lets all that wait say what they have to say, now and later.
func (t *HelpTexts) Fail() { t.requests.failAll(false) }
