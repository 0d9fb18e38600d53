package sshx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// peaks counts the permits held at the same time.
type peaks struct {
	mu       sync.Mutex
	now, max map[string]int
}

func (p *peaks) add(name string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now, p.max = map[string]int{}, map[string]int{}
	}
	p.now[name] += n
	p.max[name] = max(p.max[name], p.now[name])
}

func TestPacerLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pacer Pacer
		var count peaks
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				server := "many"
				if i >= 40 {
					server = fmt.Sprint("own", i)
				}
				pass, err := pacer.Acquire(t.Context(), server)
				if err != nil {
					t.Error(err)
					return
				}
				count.add("all", 1)
				count.add(server, 1)
				time.Sleep(time.Second)
				count.add("all", -1)
				count.add(server, -1)
				pass.Release(LoggedIn, nil)
			})
		}
		wg.Wait()
		if count.max["all"] != 64 || count.max["many"] != 8 {
			t.Errorf("at once: %d, to one server %d; want 64 and 8", count.max["all"], count.max["many"])
		}
		// 40 to one server, 8 at the same time, take 5 s; no other server's callers wait behind them.
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestPacerHalvesAndRecovers(t *testing.T) {
	var p Pacer
	enter := func(n int) (passes []*Permit) {
		for range n {
			w, err := p.Acquire(context.Background(), "s")
			check(t, err)
			passes = append(passes, w)
		}
		return passes
	}
	limit := func(want int, when string) {
		t.Helper()
		if got := p.servers["s"].limit; got != want {
			t.Errorf("%s: limit %d, want %d", when, got, want)
		}
	}
	burst := enter(8)
	burst[0].Release(Dropped, nil)
	limit(4, "after a drop")
	burst[1].Release(Dropped, nil)
	limit(4, "after another drop of the same burst")
	burst[2].Release(OwnFailure, nil)
	for _, w := range burst[3:] {
		w.Release(LoggedIn, nil)
	}
	limit(5, "after as many logins as places")
	enter(1)[0].Release(Dropped, nil)
	enter(1)[0].Release(Dropped, nil)
	enter(1)[0].Release(Dropped, nil)
	limit(1, "never less than one")
	for range 100 {
		enter(1)[0].Release(LoggedIn, nil)
	}
	limit(8, "in the end")
}

// UnknownServer has the whole fan-out. A drop counts for an attempt only if no crowd was allowed with
// it.
func TestPacerOfUnknownServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Fanout: 32}
		enter := func(n int) (passes []*Permit) {
			for range n {
				w, err := p.Acquire(t.Context(), UnknownServer)
				check(t, err)
				passes = append(passes, w)
			}
			return passes
		}
		for _, want := range []struct {
			limit   int
			crowded bool
		}{{32, true}, {16, true}, {8, false}, {4, false}} {
			burst := enter(want.limit)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := p.Acquire(ctx, UnknownServer); err == nil {
				t.Errorf("more than %d were let in", want.limit)
			}
			cancel()
			if burst[0].IsCrowded() != want.crowded {
				t.Errorf("of %d: crowded %v", want.limit, burst[0].IsCrowded())
			}
			for _, w := range burst {
				w.Release(Dropped, nil)
			}
		}
		for range 200 {
			enter(1)[0].Release(LoggedIn, nil)
		}
		enter(16)
	})
}

// Permits are granted in the order of arrival, except for servers at their limit.
func TestPacerOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Fanout: 2, PerServer: 1}
		enter := func(server string) *Permit {
			w, err := p.Acquire(t.Context(), server)
			check(t, err)
			return w
		}
		a, x := enter("a"), enter("x")
		var order string
		var all sync.WaitGroup
		for _, server := range []string{"a", "a", "b", "c", "b", "a"} {
			all.Go(func() {
				w := enter(server)
				order += server // one at a time: x and another server hold the permits
				w.Release(LoggedIn, nil)
			})
			synctest.Wait() // it waits now
		}
		a.Release(LoggedIn, nil)
		all.Wait()
		if order != "aabcba" {
			t.Errorf("order %s", order)
		}
		a = enter("a")
		order = ""
		for _, server := range []string{"a", "b"} {
			all.Go(func() {
				w := enter(server)
				order += server
				w.Release(LoggedIn, nil)
			})
			synctest.Wait()
		}
		x.Release(LoggedIn, nil)
		synctest.Wait()
		if order != "b" {
			t.Errorf("while a has no room: order %s", order)
		}
		a.Release(LoggedIn, nil)
		all.Wait()
	})
}

func TestPacerLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{PerServer: 1}
		first, err := p.Acquire(t.Context(), "s")
		check(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("enter: %v", err)
		}
		gone := errors.New("gone")
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := p.Acquire(t.Context(), "s")
				errs <- err
			}()
		}
		synctest.Wait()
		first.Release(Dead, gone)
		for range 3 {
			if err := <-errs; err != gone {
				t.Errorf("who waited got %v", err)
			}
		}
		if next, err := p.Acquire(t.Context(), "s"); err != nil { // the permit may have been returned by now
			t.Error(err)
		} else {
			next.Release(LoggedIn, nil)
		}
		if p.busy != 0 || len(p.ready) != 0 || p.servers["s"].busy != 0 {
			t.Errorf("busy %d, ready %d, server %+v", p.busy, len(p.ready), p.servers["s"])
		}
	})
}

func TestBackoff(t *testing.T) {
	want := []time.Duration{200, 500, 1000, 2000, 2000}
	for i, d := range want {
		d *= time.Millisecond
		if lo, mid, hi := Backoff(i+1, 0), Backoff(i+1, 0.5), Backoff(i+1, 1); lo != d*3/4 || mid != d || hi != d*5/4 {
			t.Errorf("attempt %d: %v %v %v, want about %v", i+1, lo, mid, hi, d)
		}
	}
}
