//go:build linux

package status

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"remshell/helper"
	"remshell/job"
	"remshell/wire"
)

// receive returns the helper's next message of a type. It skips the messages before.
func receive[M wire.Message](t *testing.T, conn *wire.Conn) (found M) {
	t.Helper()
	late := time.AfterFunc(5*time.Minute, func() { conn.Abandon() })
	defer late.Stop()
	for {
		m, err := conn.Recv()
		if err != nil {
			t.Fatalf("no %T: %v", found, err)
		}
		if found, is := m.(M); is {
			return found
		}
	}
}

// A helper keeps the final state of each rank whose group is over, and reports it with those of the ranks that run.
func TestStatesOfEndedGroups(t *testing.T) {
	here, there := net.Pipe()
	conn := wire.NewConn(here, wire.Launcher)
	t.Cleanup(func() { conn.Abandon() })
	served := make(chan error, 1)
	go func() {
		served <- helper.Serve(context.Background(), there, helper.System{Build: "test", Root: os.DirFS("/"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}})
	}()
	if _, _, err := conn.ReceiveHello(); err != nil {
		t.Fatal(err)
	}
	ledger := t.TempDir()
	start := func(rank int, script string) {
		group := fmt.Sprint("g", rank)
		conn.Send(&wire.Prepare{Job: "j", Group: wire.Group{Name: group, First: rank, Size: 1, NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1},
			Supervision: wire.Supervision{Grace: 10 * time.Millisecond}, Claim: wire.Claim{Ledger: ledger, MaxProcs: -1, IgnoreOthers: true},
			Streams: wire.Streams{Window: 1 << 10}, Apps: []job.App{{Argv: []string{"/bin/sh", "-c", script}, Dir: "/"}}, Ranks: []job.RankPlan{{}}})
		receive[*wire.Prepared](t, conn)
		conn.Send(&wire.Start{Group: group})
		receive[*wire.Started](t, conn)
	}
	start(0, "exec sleep 1000")
	const ended = 3
	for rank := 1; rank <= ended; rank++ {
		start(rank, "exit 0")
		receive[*wire.Exited](t, conn)
	}
	start(ended+1, "exec sleep 1000")

	conn.Send(&InspectRanks{})
	states := receive[*RankStates](t, conn).Ranks
	if len(states) != ended+2 {
		t.Errorf("%d states, want %d", len(states), ended+2)
	}
	for rank, s := range states {
		want := job.RankState{Rank: rank, Phase: "over"}
		if rank == 0 || rank > ended {
			want.Phase = "running"
		}
		if s.Rank != want.Rank || s.Phase != want.Phase || (s.PID > 0) != (s.Phase == "running") {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	conn.Send(&wire.Bye{})
	conn.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
