//go:build linux

package uplink

import (
	"context"

	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// Texts ask mpiexec which of what the libraries of ranks have to say was said already, by any rank of the
// job (PMIX-48).
type Texts struct{ under pipeline[bool] }

// maxTexts is how many texts of a node mpiexec takes at once (TRUST-4). Others wait here.
const maxTexts = 1 << 6

// NewTexts returns texts that go to mpiexec by send.
func NewTexts(send func(wire.Message) error) *Texts {
	return &Texts{pipeline[bool]{most: maxTexts, send: send}}
}

// IsKnown reports whether a text of a rank of the job was said already. One about nothing in particular is not, nor
// one about whose topic nobody can ask; and who gets no answer has to say it.
func (t *Texts) IsKnown(ctx context.Context, rank int, of message.Topic) bool {
	if of.File == "" || len(of.File) > wire.MaxTopic || len(of.Name) > wire.MaxTopic {
		return false
	}
	answer := make(chan bool, 1)
	question := func(id int) wire.Message { return &wire.Utter{ID: id, Rank: rank, File: of.File, Name: of.Name} }
	if !t.under.put(question, func(known bool) { answer <- known }) {
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
func (t *Texts) Deliver(m *wire.Uttered) { t.under.deliver(m.ID, m.Known) }

// Fail lets all that wait say what they have to say, now and later.
func (t *Texts) Fail() { t.under.fail(false) }
