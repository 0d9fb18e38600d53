package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTakeClaimAndRelease(t *testing.T) {
	for _, lacks := range []struct{ tmpfile, links, inotify bool }{{}, {tmpfile: true}, {tmpfile: true, links: true}} {
		b := open(t, shared(t))
		b.testWithout = lacks
		want := claimOf("j1", 0, 1)
		want.Exclusive = true
		h, err := b.TakeClaim(t.Context(), want, always)
		if err != nil || h.Warning != nil {
			t.Fatal(err, h.Warning)
		}
		claims, err := b.Claims()
		if err != nil || len(claims) != 1 {
			t.Fatalf("%+v: claims %v, %v", lacks, claims, err)
		}
		got := claims[0]
		if got.Job != "j1" || got.UID != os.Geteuid() || len(got.Ranks) != 2 || got.Ranks[1].CPUs[0] != 1 ||
			!got.Exclusive || !got.Since.Equal(want.Since) || got.Command != want.Command {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if err := errors.Join(h.Release(), h.Release()); err != nil {
			t.Error(err)
		}
		wantClaims(t, b)
		first, err := b.Enqueue(ticketOf("j1"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.Enqueue(ticketOf("j2"))
		if err != nil || second.Ticket.Number != 2 {
			t.Fatalf("%+v: %+v, %v", lacks, second, err)
		}
		if tickets, _ := b.Tickets(); len(tickets) != 2 || tickets[1].Job != "j2" {
			t.Errorf("%+v: tickets %v", lacks, tickets)
		}
		if err := errors.Join(first.Leave(), second.Leave()); err != nil {
			t.Error(err)
		}
		if left := files(t, b, ""); len(left) != 0 {
			t.Errorf("%+v: left behind: %q", lacks, left)
		}
	}
}

// A claim shows whether its job is suspended, and remains valid. Its file does not change.
func TestClaimShowsThatItsJobIsSuspended(t *testing.T) {
	b := open(t, shared(t))
	h, err := b.TakeClaim(t.Context(), claimOf("j1", 0), always)
	if err != nil {
		t.Fatal(err)
	}
	for _, suspended := range []bool{false, true, true, false} {
		if err := h.SetSuspended(suspended); err != nil {
			t.Fatal(err)
		}
		if claims, err := b.Claims(); err != nil || len(claims) != 1 || claims[0].Suspended != suspended {
			t.Errorf("%v: %+v, %v", suspended, claims, err)
		}
	}
	h.SetSuspended(true)
	if err := errors.Join(h.Release(), h.SetSuspended(false)); err != nil {
		t.Error(err)
	}
	wantClaims(t, b)
}

// Of two jobs that want the same CPU the second is refused, and leaves nothing behind.
func TestTakeClaimRefused(t *testing.T) {
	b := open(t, shared(t))
	h, err := b.TakeClaim(t.Context(), claimOf("j1", 0), apart([]int{0}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.TakeClaim(t.Context(), claimOf("j2", 0), apart([]int{0})); err != errTaken {
		t.Errorf("got %v, want %v", err, errTaken)
	}
	wantClaims(t, b, "j1")
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	if h, err = b.TakeClaim(t.Context(), claimOf("j2", 0), apart([]int{0})); err != nil {
		t.Fatal(err)
	}
	h.Release()
}

// A claim that appears while another one is made is found by the second look, and stays, since it cannot have
// seen ours.
func TestTakeClaimRechecks(t *testing.T) {
	b := open(t, shared(t))
	var inner *HeldClaim
	looks := 0
	_, err := b.TakeClaim(t.Context(), claimOf("outer", 0), func(others OtherClaims) (err error) {
		if looks++; looks == 1 {
			inner, err = b.TakeClaim(context.Background(), claimOf("inner", 0), apart([]int{0}))
			return err
		}
		return apart([]int{0})(others)
	})
	if err != errTaken || looks < 2 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	wantClaims(t, b, "inner")
	inner.Release()
}

// Two processes race for the last CPU, 200 times: exactly one gets it.
func TestRace(t *testing.T) {
	dir := shared(t)
	pair := []*actor{newActor(t, dir, 0), newActor(t, dir, 0)}
	wins := make([]int, 2)
	for range 200 {
		for _, a := range pair {
			a.tell("take", "j", "3")
		}
		won := -1
		for i, a := range pair {
			switch got := a.hear(); {
			case got == "ok" && won < 0:
				won = i
				wins[i]++
			case got != errTaken.Error():
				t.Fatalf("got %q with %d as the winner", got, won)
			}
		}
		if won < 0 {
			t.Fatal("neither has it")
		}
		pair[won].want("ok", "release")
	}
	t.Logf("won: %v", wins)
}

// If a claimant is killed at any moment, nothing of its claim stays, and the CPU is free at once.
func TestKilledClaimant(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	for i := range 60 {
		a := newActor(t, dir, 0)
		a.want("", "claims")
		a.tell("take", "j", "3")
		if i%2 == 0 {
			a.want("ok") // until it has the claim
		} else {
			sleep(t.Context(), time.Duration(rand.IntN(500))*time.Microsecond) // any moment
		}
		a.kill()
		wantClaims(t, b)
		h, err := b.TakeClaim(t.Context(), claimOf("mine", 3), apart([]int{3}))
		if err != nil {
			t.Fatal(err)
		}
		if left := files(t, b, kindClaim); len(left) != 1 {
			t.Errorf("leftovers were not removed: %q", left)
		}
		h.Release()
	}
}

// A child that outlives the holder does not keep the claim.
func TestClaimIsNotInherited(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	a := newActor(t, dir, 0)
	a.want("ok", "take", "j", "3")
	child, err := strconv.Atoi(a.ask("spawn"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(child, unix.SIGKILL)
	wantClaims(t, b, "j")
	a.cmd.Process.Kill()
	a.cmd.Process.Wait()
	wantClaims(t, b)
	if err := unix.Kill(child, 0); err != nil {
		t.Errorf("the child is gone too: %v", err)
	}
}

// Four processes compete for one CPU as fast as they can. Files show independently
// whether two ever have it at the same time.
func TestContention(t *testing.T) {
	dir := shared(t)
	umpire := filepath.Join(t.TempDir(), "umpire")
	var all []*actor
	for range 4 {
		all = append(all, newActor(t, dir, 0))
	}
	for _, a := range all {
		a.tell("contend", "3", "300", umpire)
	}
	won := 0
	for _, a := range all {
		text := a.hear()
		wins, err := strconv.Atoi(text)
		if won += wins; err != nil {
			t.Errorf("%q", text)
		}
	}
	if t.Logf("won %d of 1200", won); won == 0 {
		t.Error("nobody ever had it")
	}
}

// Entries under other names, as hard links or copies, are not believed.
func TestOtherNames(t *testing.T) {
	b := open(t, shared(t))
	h, err := b.TakeClaim(t.Context(), claimOf("j1", 0), always)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	name := files(t, b, kindClaim)[0]
	text, err := os.ReadFile(name)
	if err := errors.Join(err, os.Link(name, name+"x"), os.WriteFile(name+"y", text, 0o644)); err != nil {
		t.Fatal(err)
	}
	wantClaims(t, b, "j1")
}

// The next claim removes what a crash left before it was published. What may yet be
// published, and what belongs to nobody of ours, stays.
func TestOldLeftovers(t *testing.T) {
	b := open(t, shared(t))
	dir, own, err := b.openOwnDir()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(dir)
	old := time.Now().Add(-31 * 24 * time.Hour)
	for name, gone := range map[string]bool{
		kindNew + "1":          true,
		kindNew + "2-young":    false,
		kindClaim + "dead":     true,
		kindLock + "dead":      false, // the next request removes it
		"something-else":       false,
		kindTicket + "of-mine": false,
	} {
		path := filepath.Join(b.path, own.name, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(name, "young") {
			os.Chtimes(path, old, old)
		}
		h, err := b.TakeClaim(t.Context(), claimOf("j", 0), always)
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
		if _, err := os.Lstat(path); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v, want it gone: %v", name, err, gone)
		}
	}
}

// The holder of a file updates its times.
func TestTouch(t *testing.T) {
	b := open(t, shared(t))
	h, err := b.TakeClaim(t.Context(), claimOf("j", 0), always)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	name := files(t, b, kindClaim)[0]
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	h.file.touchFile()
	st, err := os.Stat(name)
	if err != nil || time.Since(st.ModTime()) > time.Minute {
		t.Errorf("last touched %v, %v", st.ModTime(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := shared(t)
	file := filepath.Join(dir, "file")
	os.WriteFile(file, nil, 0o644)
	open := filepath.Join(dir, "open")
	os.Mkdir(open, 0o755)
	os.Chmod(open, 0o777)
	for _, dir := range []string{file, open, filepath.Join(dir, "no", "such")} {
		_, err := Open(dir, "n")
		var unusable *UnusableError
		if !errors.As(err, &unusable) || unusable.Hint() == "" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestCheckDir(t *testing.T) {
	for _, c := range []struct {
		owner, me int
		mode      uint32
		ok        bool
	}{
		{0, 1000, 0o1777, true},
		{0, 1000, 0o0755, true},
		{1000, 1000, 0o0700, true},
		{1000, 1000, 0o1777, true},
		{1000, 1001, 0o1777, false},
		{1000, 0, 0o1777, false},
		{0, 1000, 0o0777, false},
		{0, 1000, 0o0775, false},
	} {
		if err := checkDir(c.owner, c.me, unix.S_IFDIR|c.mode); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A claim of many ranks is larger than what is read at once.
func TestLongClaim(t *testing.T) {
	b := open(t, shared(t))
	want := claimOf("j", make([]int, 5_000)...)
	h, err := b.TakeClaim(t.Context(), want, always)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := b.Claims()
	if err != nil || len(claims) != 1 || len(claims[0].Ranks) != 5_000 {
		t.Errorf("%d claims, %v", len(claims), err)
	}
	h.Release()
	want.Command = strings.Repeat("x", maxText)
	if _, err := b.TakeClaim(t.Context(), want, always); err == nil {
		t.Error("wrote what nobody reads")
	}
	wantClaims(t, b)
}

// Watch reports claims that are made and removed, also when their holder is killed.
func TestWatch(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	events, done := make(chan struct{}, 100), make(chan error)
	go func() { done <- b.Watch(ctx, func() { events <- struct{}{} }) }()
	until := func(want ...string) {
		t.Helper()
		for {
			claims, err := b.Claims()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(jobs(claims), " ") == strings.Join(want, " ") {
				return
			}
			select {
			case <-events:
			case <-time.After(5 * time.Minute):
				t.Fatalf("nobody told: %q, want %q", jobs(claims), want)
			}
		}
	}
	next := func() {
		t.Helper()
		select {
		case <-events:
		case <-time.After(5 * time.Minute):
			t.Fatal("nothing was told")
		}
	}
	next()
	for range 20 {
		a := newActor(t, dir, 0)
		a.want("ok", "take", "j1", "1")
		next()
		until("j1")
		a.kill()
		next()
		until()
		a = newActor(t, dir, 0)
		a.want("ok", "take", "j2", "1")
		next()
		a.want("ok", "release")
		next()
		until()
	}
	cancel()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
}

func BenchmarkTakeRelease(b *testing.B) {
	book := open(b, shared(b))
	for b.Loop() {
		h, err := book.TakeClaim(b.Context(), claimOf("j1", 0, 1, 2, 3), always)
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}
