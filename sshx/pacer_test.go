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

// peaks counts how many are in at once.
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
				pass, err := pacer.enter(t.Context(), server)
				if err != nil {
					t.Error(err)
					return
				}
				count.add("all", 1)
				count.add(server, 1)
				time.Sleep(time.Second)
				count.add("all", -1)
				count.add(server, -1)
				pass.leave(loggedIn, nil)
			})
		}
		wg.Wait()
		if count.max["all"] != 64 || count.max["many"] != 8 {
			t.Errorf("at once: %d, to one server %d; want 64 and 8", count.max["all"], count.max["many"])
		}
		// 40 to one server, 8 at once, take 5 s; nobody else waits behind them.
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestPacerHalvesAndRecovers(t *testing.T) {
	var p Pacer
	enter := func(n int) (passes []*pass) {
		for range n {
			w, err := p.enter(context.Background(), "s")
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
	burst[0].leave(dropped, nil)
	limit(4, "after a drop")
	burst[1].leave(dropped, nil)
	limit(4, "after another drop of the same burst")
	burst[2].leave(unclear, nil)
	for _, w := range burst[3:] {
		w.leave(loggedIn, nil)
	}
	limit(5, "after as many logins as places")
	enter(1)[0].leave(dropped, nil)
	enter(1)[0].leave(dropped, nil)
	enter(1)[0].leave(dropped, nil)
	limit(1, "never less than one")
	for range 100 {
		enter(1)[0].leave(loggedIn, nil)
	}
	limit(8, "in the end")
}

func TestPacerLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{PerServer: 1}
		first, err := p.enter(t.Context(), "s")
		check(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.enter(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("enter: %v", err)
		}
		gone := errors.New("gone")
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := p.enter(t.Context(), "s")
				errs <- err
			}()
		}
		synctest.Wait()
		first.leave(dead, gone)
		for range 3 {
			if err := <-errs; err != gone {
				t.Errorf("who waited got %v", err)
			}
		}
		if next, err := p.enter(t.Context(), "s"); err != nil { // it may be back by now
			t.Error(err)
		} else {
			next.leave(loggedIn, nil)
		}
		if p.busy != 0 || len(p.queue) != 0 {
			t.Errorf("busy %d, queue %d", p.busy, len(p.queue))
		}
	})
}

func TestBackoff(t *testing.T) {
	want := []time.Duration{200, 500, 1000, 2000, 2000}
	for i, d := range want {
		d *= time.Millisecond
		if lo, mid, hi := backoff(i+1, 0), backoff(i+1, 0.5), backoff(i+1, 1); lo != d*3/4 || mid != d || hi != d*5/4 {
			t.Errorf("attempt %d: %v %v %v, want about %v", i+1, lo, mid, hi, d)
		}
	}
}
