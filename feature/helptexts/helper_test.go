//go:build linux

package helptexts

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
	var q requests
	answers := func(m wire.Message) error {
		asked := m.(*ShowHelp)
		if asked.Rank != 7 || asked.File != topic.File || asked.Topic != topic.Name {
			t.Errorf("it asks %+v", asked)
		}
		go q.Deliver(asked.ID, &ShowHelpReply{ID: asked.ID, AlreadyShown: asked.ID > 1})
		return nil
	}
	q = newRequests(answers)
	if q.wasPrinted(t.Context(), 7, topic) || !q.wasPrinted(t.Context(), 7, topic) {
		t.Error("the first one is known, or the second is not")
	}
	for _, of := range []message.Topic{{}, {Name: "n"}, {File: strings.Repeat("f", maxTopic+1)}, {File: "f", Name: strings.Repeat("n", maxTopic+1)}} {
		if q.wasPrinted(t.Context(), 7, of) {
			t.Errorf("%.9q is known", of)
		}
	}
	q.Fail()
	if q.wasPrinted(t.Context(), 7, topic) {
		t.Error("it is known though nobody answers")
	}
	silent := newRequests(func(wire.Message) error { return nil })
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if silent.wasPrinted(ctx, 7, topic) {
		t.Error("it is known to who waits no longer")
	}
}
