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

func (d desk) vacate(w *Worker, what job.Vacancy) string {
	answer := make(chan Vacated, 1)
	w.Vacate(what, "a", func(v Vacated) { answer <- v })
	v := <-answer
	return v.Taken + v.Notice
}

func (d desk) release(w *Worker, group string) {
	done := make(chan bool)
	w.Release(group, func() { close(done) })
	<-done
}

// shows is what anybody reads in the ledger.
func (d desk) shows() string {
	all, err := d.book.Claims()
	if err != nil {
		d.Fatal(err)
	}
	var claims []string
	for _, c := range all {
		claims = append(claims, strings.TrimSpace(fmt.Sprintf("%s%v%s", c.Job, c.Ranks[0].CPUs, map[bool]string{true: " suspended"}[c.Suspended])))
	}
	slices.Sort(claims)
	return strings.Join(claims, ", ")
}

// A suspended job gives its CPUs to others and takes exactly these back, all of its groups or none; whoever
// has one is named, and nobody ever has what another one has.
func TestVacate(t *testing.T) {
	d := newDesk(t)
	a, b := d.helper(), d.helper()
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	const taken = "CPU 4 was taken by another job (job b of ann)"
	expect("two groups", d.claims(a, "a", "a", 0, 3)+d.claims(a, "a", "a.1", 1, 4), "")
	expect("another job", d.claims(b, "b", "b", 0, 4), "CPU 4 was taken by another job")
	expect("CPUs are given up", d.vacate(a, job.GiveUp)+d.vacate(a, job.GiveUp), "")
	expect("then the ledger", d.shows(), "a[] suspended, a[] suspended")
	expect("another job has one", d.claims(b, "b", "b", 0, 4), "")
	expect("a look", d.vacate(a, job.Look), taken)
	expect("they are taken back", d.vacate(a, job.TakeBack), taken)
	expect("then the ledger", d.shows(), "a[] suspended, a[] suspended, b[4]")
	expect("a group that comes meanwhile", d.claims(a, "a", "a.2", 2, 5), "")
	expect("then the ledger", d.shows(), "a[] suspended, a[] suspended, a[] suspended, b[4]")
	d.release(b, "b")
	expect("a look", d.vacate(a, job.Look), "")
	expect("then the ledger", d.shows(), "a[] suspended, a[] suspended, a[] suspended")
	expect("they are taken back", d.vacate(a, job.TakeBack)+d.vacate(a, job.TakeBack), "")
	expect("then the ledger", d.shows(), "a[3], a[4], a[5]")
	expect("what nobody knows", d.vacate(a, "burn"), `this helper does not know how to "burn"`)
	d.vacate(a, job.GiveUp)
	d.release(a, "a")
	d.release(a, "a.1")
	expect("the rest is taken back", d.vacate(a, job.TakeBack), "")
	expect("then the ledger", d.shows(), "a[5]")
	a.Close()
	expect("the helper is gone", d.shows(), "")
}

// What the cluster's ledger notes of a job that has one of its own says who may have the node, too: a job that has it alone gives it
// to others with its CPUs, and has it again with them (survive.md SV-29).
func TestTheNoteGivesTheNodeAway(t *testing.T) {
	d, cluster := newDesk(t), newDesk(t)
	a := d.helper()
	alone := func() string {
		others, err := cluster.book.Others(nil)
		if err != nil {
			t.Fatal(err)
		}
		use := others.Use()
		return fmt.Sprintf("taken %v, %d ranks, %d entries", use.Taken, use.Procs, len(others.Mine))
	}
	noted := make(chan bool)
	a.Claim(&wire.Prepare{Job: "a", Group: wire.Group{Name: "a"}, Ranks: []job.RankPlan{{Portion: &job.Portion{Held: []int{3}}}},
		Claim: wire.Claim{Entry: job.Claim{Job: "a", User: "ann", Since: time.Now(), Exclusive: true}, Ledger: d.dir, Most: -1}}, func(Answer) {
		terms := a.holdings["a"]
		terms.Noted = cluster.dir // of root nothing is noted
		held, err := cluster.book.Take(t.Context(), noteOf(terms), func(ledger.Others) error { return nil })
		if err != nil {
			t.Error(err)
		}
		a.noted["a"] = held
		close(noted)
	})
	<-noted
	for _, step := range []struct {
		what job.Vacancy
		want string
	}{
		{job.Look, "taken true, 1 ranks, 1 entries"},
		{job.GiveUp, "taken false, 0 ranks, 1 entries"},
		{job.TakeBack, "taken true, 1 ranks, 1 entries"},
	} {
		if got := d.vacate(a, step.what); got != "" {
			t.Errorf("%s: %q", step.what, got)
		}
		if got := alone(); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
	d.release(a, "a")
	if got := alone(); got != "taken false, 0 ranks, 0 entries" {
		t.Errorf("released: %s", got)
	}
}

// Where the ledger takes no claims any more, nobody else has any either: the job goes on, and says so.
func TestTakeBackWhereNothingCanBeWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes the ledger away from itself as root alone can")
	}
	d := newDesk(t)
	a := d.helper()
	d.claims(a, "a", "a", 0, 3)
	d.vacate(a, job.GiveUp)
	if err := os.RemoveAll(d.dir); err != nil {
		t.Fatal(err)
	}
	d.vacate(a, job.Look)
	if got := d.vacate(a, job.TakeBack); !strings.HasPrefix(got, "its CPUs are not claimed again: ") {
		t.Errorf("%q", got)
	}
}

// A ledger that cannot be read says so: nobody is held to have claimed nothing.
func TestALookSaysWhatItCannotRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes the ledger away from itself as root alone can")
	}
	d := newDesk(t)
	a := d.helper()
	d.claims(a, "a", "a", 0, 3)
	d.vacate(a, job.GiveUp)
	if err := os.RemoveAll(d.dir); err != nil {
		t.Fatal(err)
	}
	if got := d.vacate(a, job.Look); !strings.HasPrefix(got, "who claims what cannot be read: ") {
		t.Errorf("%q", got)
	}
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
