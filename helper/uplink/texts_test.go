//go:build linux

package uplink

import (
	"context"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// A text is said by who is not told that another has said it: because it is new, because nobody can be asked
// about it, because nobody answers.
func TestTexts(t *testing.T) {
	topic := message.Topic{File: "help-mpi-api.txt", Name: "mpi-abort"}
	var x *Texts
	answers := func(m wire.Message) error {
		asked := m.(*wire.Utter)
		if asked.Rank != 7 || asked.File != topic.File || asked.Name != topic.Name {
			t.Errorf("it asks %+v", asked)
		}
		go x.Deliver(&wire.Uttered{ID: asked.ID, Known: asked.ID > 1})
		return nil
	}
	x = NewTexts(answers)
	if x.IsKnown(t.Context(), 7, topic) || !x.IsKnown(t.Context(), 7, topic) {
		t.Error("the first one is known, or the second is not")
	}
	for _, of := range []message.Topic{{}, {Name: "n"}, {File: strings.Repeat("f", wire.MaxTopic+1)}, {File: "f", Name: strings.Repeat("n", wire.MaxTopic+1)}} {
		if x.IsKnown(t.Context(), 7, of) {
			t.Errorf("%.9q is known", of)
		}
	}
	x.Fail()
	if x.IsKnown(t.Context(), 7, topic) {
		t.Error("it is known though nobody answers")
	}
	silent := NewTexts(func(wire.Message) error { return nil })
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if silent.IsKnown(ctx, 7, topic) {
		t.Error("it is known to who waits no longer")
	}
}
