package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/node/nodetest"
	"remshell/wire"
)

// newPair returns a node at the end of a job, before Bye, and its helper's connection.
func newPair(t *testing.T) (n *node.Node, helper *wire.Conn, inbox *node.Inbox) {
	t.Helper()
	near, far := wire.NewInProcess()
	g, _ := nodetest.NewStage(t, "over")
	n = node.MakeNode(near, g)
	t.Cleanup(func() { near.Close() })
	inbox = node.NewInbox()
	go node.Listener{Inbox: inbox, Log: zerolog.Nop()}.Listen(n)
	return n, wire.NewConn(far, wire.Helper), inbox
}

// nextEvent returns the next event of an inbox, as text.
func nextEvent(t *testing.T, inbox *node.Inbox) string {
	t.Helper()
	switch e := inbox.Take(t.Context(), time.Now().Add(5*time.Minute))[0].(type) {
	case node.NodeMessage:
		return wire.NameOf(e.Message)
	case node.Disconnected:
		return e.Err.Error()
	}
	return "nothing"
}

// Late messages of one attempt, from either side, do not affect the next. Code that still has the first
// attempt's Node can neither send nor close the connection.
func TestSuccessor(t *testing.T) {
	old, helper, before := newPair(t)
	next := old.Successor()
	after := node.NewInbox()
	go node.Listener{Inbox: after, Log: zerolog.Nop()}.Listen(next)
	helper.Send(&wire.HelperSignaled{Signal: 15}) // it was on its way
	if m, err := helper.Recv(); err != nil || wire.NameOf(m) != "NextAttempt" {
		t.Fatalf("the helper receives %v, %v", m, err)
	}
	second := helper.Successor()
	helper.Send(&wire.Exited{Exit: job.Exit{Rank: nodetest.Own}})
	second.Send(&wire.AttemptReady{})
	old.Send(&wire.Signal{Number: 15})
	old.SendFrame(wire.Encode(&wire.Signal{Number: 15}))
	old.Close()
	old.Abandon()
	next.Send(&wire.Survey{})
	if m, err := second.Recv(); err != nil || wire.NameOf(m) != "Survey" {
		t.Fatalf("the next attempt's helper receives %v, %v", m, err)
	}
	second.Send(&wire.Surveyed{})
	if got := nextEvent(t, after); got != "Surveyed" {
		t.Errorf("the next attempt receives %s", got)
	}
	if events := before.TakeAll(); len(events) > 0 {
		t.Errorf("the first attempt receives %v", events)
	}
	second.Close()
	if got := nextEvent(t, after); got != node.ErrClosed.Error() {
		t.Errorf("at the end it receives %s", got)
	}
}

// A message about the old attempt that comes after AttemptReady is a violation: a rank number in it may
// be that of a rank of the next attempt.
func TestSuccessorExpectsNothingOfTheOldAttempt(t *testing.T) {
	for _, m := range []wire.Message{&wire.Exited{Exit: job.Exit{Rank: nodetest.Own}}, &wire.Drained{}, &wire.AttemptReady{}, &wire.Prepared{Group: "g"},
		&wire.Data{Rank: nodetest.Own, Stream: wire.Stdout, Bytes: []byte("x")}, &wire.Hello{}} {
		old, helper, _ := newPair(t)
		next, after := old.Successor(), node.NewInbox()
		go node.Listener{Inbox: after, Log: zerolog.Nop()}.Listen(next)
		helper.Send(&wire.AttemptReady{})
		helper.Send(m)
		e, cut := after.Take(t.Context(), time.Now().Add(5*time.Minute))[0].(node.Disconnected)
		if !cut || !node.IsViolation(e.Err) || e.From != next {
			t.Errorf("%s: %+v", wire.NameOf(m), e)
		}
	}
	g, _ := nodetest.NewStage(t, "running")
	request := func() wire.Message {
		return &wire.ControlRequest{ID: "0123456789abcdef", Request: job.ControlRequest{Job: "j", Verb: job.VerbEnd}}
	}
	next := g.ForNextAttempt()
	if got := nodetest.Judge(next, request()); got != "ok" {
		t.Errorf("a request to the job between two attempts: %s", got)
	}
	if got := nodetest.Judge(next, request()); got != "the host sent a ControlRequest before mpiexec had answered the previous one" {
		t.Errorf("the same, twice: %s", got)
	}
	if got := nodetest.Judge(g, &wire.AttemptReady{}); got != "unasked" {
		t.Errorf("while ranks run: %s", got)
	}
}

// If the connection ends, or is cut for a violation, that ends both attempts' Nodes, whenever it happens.
func TestSuccessorOfALostConnection(t *testing.T) {
	for _, when := range []string{"before", "meanwhile", "violation"} {
		old, helper, before := newPair(t)
		if when == "before" {
			helper.Close()
			nextEvent(t, before)
		}
		next, after := old.Successor(), node.NewInbox()
		go node.Listener{Inbox: after, Log: zerolog.Nop()}.Listen(next)
		switch when {
		case "meanwhile":
			helper.Close()
		case "violation":
			helper.Send(&wire.Hello{})
		}
		if got, want := nextEvent(t, after), map[string]string{"violation": "the host sent the message Hello twice"}[when]; got != want && (want != "" || got != node.ErrClosed.Error()) {
			t.Errorf("%s: the next attempt receives %s", when, got)
		}
		if when == "violation" {
			for err := error(nil); err == nil; _, err = helper.Recv() { // NextAttempt may be under way
			}
		}
		if err := next.Send(&wire.Ping{}); err == nil {
			t.Error(fmt.Sprint(when, ": the connection is still there"))
		}
	}
}

// changingReason returns another reason at each call, as a program does that is killed meanwhile.
type changingReason struct {
	*wire.InProcess
	reasons []string
}

func (a *changingReason) Why() string {
	defer func() { a.reasons = a.reasons[1:] }()
	return a.reasons[0]
}

// The next attempt gets the same reason as this one.
func TestAConnectionIsAskedOnceWhyItEnded(t *testing.T) {
	near, far := wire.NewInProcess()
	g, _ := nodetest.NewStage(t, "left")
	n := node.MakeNode(&changingReason{near, []string{"out of memory", "killed by signal 15"}}, g)
	far.Close()
	before, after := node.NewInbox(), node.NewInbox()
	node.Listener{Inbox: before, Log: zerolog.Nop()}.Listen(n)
	node.Listener{Inbox: after, Log: zerolog.Nop()}.Listen(n.Successor())
	for _, inbox := range []*node.Inbox{before, after} {
		if got := nextEvent(t, inbox); got != "out of memory" {
			t.Errorf("it gets %q", got)
		}
	}
}
