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

// A desk is a ledger, and helpers that claim there.
type desk struct {
	*testing.T
	dir  string
	book *ledger.Dir
}

func newDesk(t *testing.T) desk {
	d := desk{T: t, dir: t.TempDir()}
	book, err := ledger.Open(d.dir, probe.Identity(os.DirFS("/")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	d.book = book
	return d
}

func (d desk) helper() *Worker {
	w := New(os.DirFS("/"), nil, func(wire.Message) error { return nil }, nil)
	d.Cleanup(w.Close)
	return w
}

// claims has a group claim a CPU, and returns who was faster.
func (d desk) claims(w *Worker, id job.ID, group string, rank, cpu int) string {
	answer := make(chan Answer, 1)
	w.Claim(&wire.Prepare{Job: id, Group: wire.Group{Name: group, First: rank}, Ranks: []job.RankPlan{{Portion: &job.Portion{Held: []int{cpu}}}},
		Claim: wire.Claim{Entry: job.Claim{Job: id, User: "ann", Since: time.Now()}, Ledger: d.dir, Most: -1}}, func(a Answer) { answer <- a })
	a := <-answer
	return a.Taken + a.Notice
}

// shows is what anybody reads in the ledger.
func (d desk) shows() string {
	all, err := d.book.Claims()
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

// A group that is claimed for while what another has left is cleared away waits for that, and keeps its claim.
func TestDrainTakesItsTurn(t *testing.T) {
	d := newDesk(t)
	w := d.helper()
	d.claims(w, "job", "old", 0, 0)
	tidy, drained := make(chan bool), false
	w.Drain(false, func() { <-tidy }, func() { drained = true })
	go close(tidy)
	d.claims(w, "job", "new", 1, 1)
	if got := d.shows(); !drained || got != "job[1]" {
		t.Errorf("drained %v before the answer to the new group, and the ledger shows %q", drained, got)
	}
}
