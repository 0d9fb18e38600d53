//go:build linux

package claims

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// A testLedger is a ledger, with helpers that make claims in it.
type testLedger struct {
	*testing.T
	dir    string
	ledger *ledger.Dir
}

func newTestLedger(t *testing.T) testLedger {
	d := testLedger{T: t, dir: t.TempDir()}
	book, err := ledger.Open(d.dir, probe.Identity(os.DirFS("/")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	d.ledger = book
	return d
}

func (d testLedger) newWorker() *Worker {
	w := New(os.DirFS("/"), nil, func(wire.Message) error { return nil }, nil)
	d.Cleanup(w.Close)
	return w
}

// claim makes a group claim a CPU, and returns the conflict, if any.
func (d testLedger) claim(w *Worker, id job.ID, group string, rank, cpu int) string {
	answer := make(chan ClaimResult, 1)
	w.Claim(&wire.Prepare{Job: id, Group: wire.Group{Name: group, First: rank}, Ranks: []job.RankPlan{{RankResources: &job.RankResources{ClaimedCPUs: []int{cpu}}}},
		Claim: wire.Claim{Entry: job.Claim{Job: id, User: "ann", Since: time.Now()}, Ledger: d.dir, MaxProcs: -1}}, func(a ClaimResult) { answer <- a })
	a := <-answer
	return a.Conflict + a.Notice
}

// listed returns the claims that are in the ledger.
func (d testLedger) listed() string {
	all, err := d.ledger.Claims()
	if err != nil {
		d.Fatal(err)
	}
	var claims []string
	for _, c := range all {
		claims = append(claims, fmt.Sprintf("%s%v", c.Job, c.Ranks[0].CPUs))
	}
	slices.Sort(claims)
	return strings.Join(claims, ", ")
}

// A group that is claimed for during the tidying for another waits until that is done, and keeps its claim.
func TestDrainIsOneTask(t *testing.T) {
	d := newTestLedger(t)
	w := d.newWorker()
	d.claim(w, "job", "old", 0, 0)
	tidy, drained := make(chan bool), false
	w.Drain(false, func() { <-tidy }, func() { drained = true })
	go close(tidy)
	d.claim(w, "job", "new", 1, 1)
	if got := d.listed(); !drained || got != "job[1]" {
		t.Errorf("drained %v before the answer to the new group, and the ledger shows %q", drained, got)
	}
}
