//go:build linux

package rpc

import (
	"context"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// A text is printed if no rank has printed it, if its topic cannot be asked about, and if there is no reply.
func TestHelpTexts(t *testing.T) {
	topic := message.Topic{File: "help-mpi-api.txt", Name: "mpi-abort"}
	var x *HelpTexts
	answers := func(m wire.Message) error {
		asked := m.(*wire.ShowHelp)
		if asked.Rank != 7 || asked.File != topic.File || asked.Topic != topic.Name {
			t.Errorf("it asks %+v", asked)
		}
		go x.Deliver(&wire.ShowHelpReply{ID: asked.ID, AlreadyShown: asked.ID > 1})
		return nil
	}
	x = NewHelpTexts(answers)
	if x.WasPrinted(t.Context(), 7, topic) || !x.WasPrinted(t.Context(), 7, topic) {
		t.Error("the first one is known, or the second is not")
	}
	for _, of := range []message.Topic{{}, {Name: "n"}, {File: strings.Repeat("f", wire.MaxHelpTopic+1)}, {File: "f", Name: strings.Repeat("n", wire.MaxHelpTopic+1)}} {
		if x.WasPrinted(t.Context(), 7, of) {
			t.Errorf("%.9q is known", of)
		}
	}
	x.Fail()
	if x.WasPrinted(t.Context(), 7, topic) {
		t.Error("it is known though nobody answers")
	}
	silent := NewHelpTexts(func(wire.Message) error { return nil })
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if silent.WasPrinted(ctx, 7, topic) {
		t.Error("it is known to who waits no longer")
	}
}
