//go:build linux

package helper

import (
	"os"
	"testing"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// An mpiexec that dies while it claims, or at any step before, leaves no decision lock, ticket or claim.
func TestADeathWhileReservingLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	prepare := &wire.Prepare{Job: "test", Group: wire.Group{Size: 1, NodeCount: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: dir, MaxProcs: -1, Entry: job.Claim{Job: "test"}},
		Apps: []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{RankResources: &job.RankResources{ClaimedCPUs: []int{0}}}}}
	steps := []wire.Message{&wire.LockDecision{Ledger: dir}, &wire.Survey{Ledger: dir},
		&wire.Enqueue{Ledger: dir, Ticket: job.Ticket{Job: "test"}}, &wire.WatchClaims{Ledger: dir}, prepare}
	for n := range len(steps) + 1 {
		k := newTestHelper(t)
		for _, m := range steps[:n] {
			k.conn.Send(m)
		}
		if n%2 == 0 { // otherwise it dies while the helper works on it
			k.conn.Send(&wire.ListLedger{Ledger: dir})
			receive[*wire.LedgerListed](k)
		}
		k.conn.Flush()
		k.conn.Abandon()
		k.endJob()
		other, err := ledger.Open(dir, probe.Identity(os.DirFS("/")))
		if err != nil {
			t.Fatal(err)
		}
		claims, _ := other.Claims()
		tickets, _ := other.Tickets()
		gate, err := other.LockDecision(t.Context())
		if err != nil || gate.Warning != nil || len(claims)+len(tickets) > 0 {
			t.Errorf("after %d steps: %v, %v, %v, %+v", n, claims, tickets, err, gate)
		}
		gate.Unlock()
		other.Close()
	}
}
