package migrate_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// Ranks that stand still are continued before they are told to end, on each node (survive.md SV-31).
func TestHeldRanksAreContinuedBeforeTheyAreToldToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &removal{args: []string{"from=n1"}, on: "look", strike: func(s *removal, _ *wire.Conn, _ string) {
			n0 := s.conns["n0"]
			request := func(id string, verb job.Verb) {
				n0.Send(&wire.ControlRequest{ID: id, Role: job.RoleOwner, Request: job.ControlRequest{Job: "j", User: "alice", Verb: verb, Since: time.Now()}})
			}
			request("2", job.VerbSuspend)
			time.AfterFunc(time.Second, func() { request("3", job.VerbEnd) }) // when it is replied to
		}}
		if code, said := s.run(t, func(*job.Request) {}); code != 143 {
			t.Errorf("code %d\n%s", code, said)
		}
		for _, node := range []string{"n0 ", "n1 "} {
			received := slices.DeleteFunc(slices.Clone(s.diary), func(entry string) bool { return !strings.HasPrefix(entry, node) })
			if want := []string{node + "stands", node + "goes on", node + "ends"}; !slices.Equal(received, want) {
				t.Errorf("got %q, want %q", received, want)
			}
		}
	})
}
