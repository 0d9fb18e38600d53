package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/wire"
)

// newPair is a node of which everything was heard but the end of a job, and its helper.
func newPair(t *testing.T) (n *Node, helper *wire.Conn, inbox *Inbox) {
	t.Helper()
	near, far := wire.NewInProcess()
	g, _ := newStage(t, "left")
	g.progress.byeSent = time.Time{} // Bye is not said yet
	n = &Node{Def: job.NodeDef{Name: "n1"}, stream: near, conn: wire.NewConn(near, wire.Launcher), validator: g}
	t.Cleanup(func() { near.Close() })
	inbox = NewInbox()
	go Listener{Inbox: inbox, Log: zerolog.Nop()}.Listen(n)
	return n, wire.NewConn(far, wire.Helper), inbox
}

// heard is the next thing that comes to an inbox, as text.
func heard(t *testing.T, inbox *Inbox) string {
	t.Helper()
	switch e := inbox.Take(t.Context(), time.Now().Add(5*time.Minute))[0].(type) {
	case NodeMessage:
		return wire.NameOf(e.Message)
	case Disconnected:
		return e.Err.Error()
	}
	return "nothing"
}

// What is late of one attempt, from either side, does nothing to the next; and who still has the
// node of the first can neither speak nor close the connection.
func TestRenew(t *testing.T) {
	old, helper, before := newPair(t)
	next := old.Successor()
	after := NewInbox()
	go Listener{Inbox: after, Log: zerolog.Nop()}.Listen(next)
	helper.Send(&wire.PMITrace{Rank: own}) // it was on its way
	if m, err := helper.Recv(); err != nil || wire.NameOf(m) != "NextAttempt" {
		t.Fatalf("the helper hears %v, %v", m, err)
	}
	second := helper.Successor()
	helper.Send(&wire.Exited{Exit: job.Exit{Rank: own}})
	second.Send(&wire.AttemptReady{})
	old.Send(&wire.Signal{Number: 15})
	old.SendNotice(wire.Encode(&wire.Signal{Number: 15}))
	old.Close()
	old.Abandon()
	next.Send(&wire.Survey{})
	if m, err := second.Recv(); err != nil || wire.NameOf(m) != "Survey" {
		t.Fatalf("the next attempt's helper hears %v, %v", m, err)
	}
	second.Send(&wire.Surveyed{})
	if got := heard(t, after); got != "Surveyed" {
		t.Errorf("the next attempt hears %s", got)
	}
	if events := before.takeAll(); len(events) > 0 {
		t.Errorf("the first attempt hears %v", events)
	}
	second.Close()
	if got := heard(t, after); got != errClosed.Error() {
		t.Errorf("at the end it hears %s", got)
	}
}

// What a helper says of an attempt that is over, behind the word that it has begun anew, is a
// violation: it may be the number of a rank of the next.
func TestRenewedHelpersKnowNothing(t *testing.T) {
	for _, says := range []wire.Message{&wire.Exited{Exit: job.Exit{Rank: own}}, &wire.Drained{}, &wire.AttemptReady{}, &wire.Prepared{Group: "g"},
		&wire.Data{Rank: own, Stream: wire.Stdout, Bytes: []byte("x")}, &wire.Hello{}} {
		old, helper, _ := newPair(t)
		next, after := old.Successor(), NewInbox()
		go Listener{Inbox: after, Log: zerolog.Nop()}.Listen(next)
		helper.Send(&wire.AttemptReady{})
		helper.Send(says)
		e, cut := after.Take(t.Context(), time.Now().Add(5*time.Minute))[0].(Disconnected)
		if !cut || !IsViolation(e.Err) || e.From != next {
			t.Errorf("%s: %+v", wire.NameOf(says), e)
		}
	}
	g, _ := newStage(t, "running")
	ask := func() wire.Message {
		return &wire.ControlRequest{ID: "0123456789abcdef", Request: job.ControlRequest{Job: "j", Verb: job.VerbEnd}}
	}
	next := g.forNextAttempt()
	if got := judged(next, ask()); got != "ok" {
		t.Errorf("what is asked of the job between two attempts: %s", got)
	}
	if got := judged(next, ask()); got != "it sent a ControlRequest before the last one was answered" {
		t.Errorf("the same, twice: %s", got)
	}
	if got := judged(g, &wire.AttemptReady{}); got != "unasked" {
		t.Errorf("while ranks run: %s", got)
	}
}

// A connection that ends meanwhile is the end of both, whenever that is; so is one that is cut.
func TestRenewalThatFails(t *testing.T) {
	for _, when := range []string{"before", "meanwhile", "lies"} {
		old, helper, before := newPair(t)
		if when == "before" {
			helper.Close()
			heard(t, before)
		}
		next, after := old.Successor(), NewInbox()
		go Listener{Inbox: after, Log: zerolog.Nop()}.Listen(next)
		switch when {
		case "meanwhile":
			helper.Close()
		case "lies":
			helper.Send(&wire.Hello{})
		}
		if got, want := heard(t, after), map[string]string{"lies": "it sent Hello twice"}[when]; got != want && (want != "" || got != errClosed.Error()) {
			t.Errorf("%s: the next attempt hears %s", when, got)
		}
		if when == "lies" {
			for err := error(nil); err == nil; _, err = helper.Recv() { // Renew may be under way
			}
		}
		if err := next.Send(&wire.Ping{}); err == nil {
			t.Error(fmt.Sprint(when, ": the connection is still there"))
		}
	}
}

// asked tells another reason each time it is asked for one, as a program does that we have ended meanwhile.
type asked struct {
	*wire.InProcess
	reasons []string
}

func (a *asked) Why() string {
	defer func() { a.reasons = a.reasons[1:] }()
	return a.reasons[0]
}

// The next attempt hears the same reason as this one.
func TestAConnectionIsAskedOnceWhyItEnded(t *testing.T) {
	near, far := wire.NewInProcess()
	g, _ := newStage(t, "left")
	n := &Node{Def: job.NodeDef{Name: "n1"}, stream: &asked{near, []string{"out of memory", "killed by signal 15"}}, conn: wire.NewConn(near, wire.Launcher), validator: g}
	far.Close()
	before, after := NewInbox(), NewInbox()
	Listener{Inbox: before, Log: zerolog.Nop()}.Listen(n)
	Listener{Inbox: after, Log: zerolog.Nop()}.Listen(n.Successor())
	for _, inbox := range []*Inbox{before, after} {
		if got := heard(t, inbox); got != "out of memory" {
			t.Errorf("it hears %q", got)
		}
	}
}
