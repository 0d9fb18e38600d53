package ledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTakeAndRelease(t *testing.T) {
	for _, named := range []bool{false, true} {
		b := open(t, shared(t))
		b.named = named // as on file systems without O_TMPFILE
		want := claimOf("j1", 0, 1)
		want.Exclusive = true
		h, err := b.Take(t.Context(), want, always)
		if err != nil || h.Warning != nil {
			t.Fatal(err, h.Warning)
		}
		claims, err := b.Claims()
		if err != nil || len(claims) != 1 {
			t.Fatalf("named %v: claims %v, %v", named, claims, err)
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
		if left := append(files(t, b, kindClaim), files(t, b, kindNew)...); left != nil {
			t.Errorf("named %v: left behind: %q", named, left)
		}
	}
}

// Of two that want the same CPU the second is refused, and leaves nothing.
func TestTakeRefused(t *testing.T) {
	b := open(t, shared(t))
	h, err := b.Take(t.Context(), claimOf("j1", 0), apart([]int{0}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Take(t.Context(), claimOf("j2", 0), apart([]int{0})); err != errTaken {
		t.Errorf("got %v, want %v", err, errTaken)
	}
	wantClaims(t, b, "j1")
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	if h, err = b.Take(t.Context(), claimOf("j2", 0), apart([]int{0})); err != nil {
		t.Fatal(err)
	}
	h.Release()
}

// What comes while a claim is made is seen by the second look.
func TestTakeLooksAgain(t *testing.T) {
	b := open(t, shared(t))
	b.RegistryWait = 0
	var inner *Held
	looks := 0
	_, err := b.Take(t.Context(), claimOf("outer", 0), func(others []Claim) (err error) {
		if looks++; looks == 1 {
			inner, err = b.Take(context.Background(), claimOf("inner", 0), apart([]int{0}))
			if err != nil || inner.Warning == nil {
				t.Fatalf("got %v, warning %v, want a claim without the lock", err, inner.Warning)
			}
			return nil
		}
		return apart([]int{0})(others)
	})
	if err != errTaken || looks != 2 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	wantClaims(t, b, "inner")
	inner.Release()
}

// Two processes race for the last CPU, 200 times: never both and, while the registry lock
// works, never neither.
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

// Killed at any moment, nothing of a claim stays: the CPU is free at once.
func TestKilledClaimant(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	for i := range 40 {
		a := newActor(t, dir, 0)
		a.tell("take", "j", "3")
		if i%2 == 0 {
			a.hear()
		}
		a.kill() // while it takes, or after
		wantClaims(t, b)
		h, err := b.Take(t.Context(), claimOf("mine", 3), apart([]int{3}))
		if err != nil {
			t.Fatal(err)
		}
		if left := files(t, b, kindClaim); len(left) != 1 {
			t.Errorf("leftovers were not removed: %q", left)
		}
		h.Release()
	}
}

// A hard link, a copy and a file under a wrong name are not believed.
func TestOtherNames(t *testing.T) {
	b := open(t, shared(t))
	h, err := b.Take(t.Context(), claimOf("j1", 0), always)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	name := files(t, b, kindClaim)[0]
	if err := os.Link(name, name+"x"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+"y", text, 0o644); err != nil {
		t.Fatal(err)
	}
	wantClaims(t, b, "j1")
}

func TestOldLeftovers(t *testing.T) {
	b := open(t, shared(t))
	old := time.Now().Add(-31 * 24 * time.Hour)
	for name, gone := range map[string]bool{
		b.prefix + kindNew + "1":                   true,
		prefix("another") + kindClaim + "j1-1":     true,
		prefix("another") + "gate":                 true,
		"somebody-elses":                           false,
		prefix("another") + kindClaim + "young-12": false,
	} {
		path := filepath.Join(b.path, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(name, "young") {
			os.Chtimes(path, old, old)
		}
		h, err := b.Take(t.Context(), claimOf("j", 0), always)
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
		if _, err := os.Lstat(path); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v, want it gone: %v", name, err, gone)
		}
	}
}

// The holder of a file keeps it young.
func TestTouch(t *testing.T) {
	b := open(t, shared(t))
	h, err := b.Take(t.Context(), claimOf("j", 0), always)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	name := files(t, b, kindClaim)[0]
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	h.slip.keep()
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

// Watch tells of claims that come and go, also when their holder is killed.
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
			case <-time.After(5 * time.Second):
				t.Fatalf("nobody told: %q, want %q", jobs(claims), want)
			}
		}
	}
	next := func() {
		t.Helper()
		select {
		case <-events:
		case <-time.After(5 * time.Second):
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
		h, err := book.Take(b.Context(), claimOf("j1", 0, 1, 2, 3), always)
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}
