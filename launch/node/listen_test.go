package node

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"remshell/job"
	"remshell/wire"
)

// A panic in the goroutine that serves one node ends that node only, and its stack is logged (TRUST-35).
func TestAPanicIsTheEndOfOneNode(t *testing.T) {
	near, far := net.Pipe()
	peer := wire.NewConn(far, wire.Helper)
	defer peer.Abandon()
	var log bytes.Buffer
	l := Listener{Inbox: NewInbox(), Log: zerolog.New(&log)}
	n := &Node{Def: job.NodeDef{Name: "a"}, conn: wire.NewConn(near, wire.Launcher)} // without a validator, which makes it panic
	peer.Send(&wire.Ping{})
	l.Listen(n)
	events := l.Inbox.Take(t.Context(), time.Time{})
	if len(events) != 1 || !strings.HasPrefix(events[0].(Disconnected).Err.Error(), "internal error: ") || !strings.Contains(log.String(), "goroutine") {
		t.Fatalf("%+v, log %s", events, log.String())
	}
	if _, err := peer.Recv(); err == nil {
		t.Error("the connection is still there")
	}
}
