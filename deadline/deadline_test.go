package deadline

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errLate = errors.New("late")

// Each row is an event in a step of 10 s, with the time at which the deadline ends the context.
var steps = []struct {
	name string
	do   func(d *Deadline, stop func(time.Duration))
	want time.Duration
}{
	{"nothing", func(*Deadline, func(time.Duration)) {}, 10 * time.Second},
	{"bytes are taken", func(d *Deadline, _ func(time.Duration)) { wait(5); d.ExtendForBytes(5 * MinRate) }, 15 * time.Second},
	{"bytes are taken at the last moment, one by one", func(d *Deadline, _ func(time.Duration)) {
		wait(9)
		for range MinRate {
			d.ExtendForBytes(1)
		}
	}, 11 * time.Second},
	{"more bytes are taken than there was time for", func(d *Deadline, _ func(time.Duration)) { wait(5); d.ExtendForBytes(100 * MinRate) }, 15 * time.Second},
	{"a longer step follows", func(d *Deadline, _ func(time.Duration)) { wait(5); d.BeginStep(20 * time.Second) }, 25 * time.Second},
	{"a shorter step follows", func(d *Deadline, _ func(time.Duration)) { wait(5); d.BeginStep(time.Second) }, 6 * time.Second},
	{"bytes of the step before", func(d *Deadline, _ func(time.Duration)) {
		d.ExtendForBytes(100 * MinRate)
		wait(5)
		d.BeginStep(time.Second)
	}, 6 * time.Second},
	{"a pause", func(d *Deadline, _ func(time.Duration)) {
		wait(5)
		resume := d.Pause()
		wait(100)
		resume()
	}, 110 * time.Second},
	{"pauses that overlap", func(d *Deadline, _ func(time.Duration)) {
		a := d.Pause()
		wait(1)
		b := d.Pause()
		wait(1)
		a()
		wait(1)
		b()
	}, 13 * time.Second},
	{"a step that begins in a pause", func(d *Deadline, _ func(time.Duration)) {
		resume := d.Pause()
		d.BeginStep(3 * time.Second)
		wait(100)
		resume()
	}, 103 * time.Second},
	{"bytes in a pause", func(d *Deadline, _ func(time.Duration)) {
		resume := d.Pause()
		wait(20)
		d.ExtendForBytes(MinRate)
		resume()
	}, 30 * time.Second},
	{"this process is stopped", func(_ *Deadline, stop func(time.Duration)) { wait(1); stop(60 * time.Second) }, 70 * time.Second},
	{"this process is stopped in a pause", func(d *Deadline, stop func(time.Duration)) {
		resume := d.Pause()
		stop(60 * time.Second)
		resume()
	}, 70 * time.Second},
	{"this process was stopped before the step", func(d *Deadline, stop func(time.Duration)) {
		stop(60 * time.Second)
		d.BeginStep(10 * time.Second)
	}, 70 * time.Second},
}

// wait lets seconds pass in the synctest bubble.
func wait(seconds int) { <-time.After(time.Duration(seconds) * time.Second) }

func TestSteps(t *testing.T) {
	for _, test := range steps {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slept atomic.Int64
				began := time.Now()
				d := New(t.Context(), 10*time.Second, errLate, func() time.Duration { return time.Duration(slept.Load()) })
				defer d.Stop()
				test.do(d, func(f time.Duration) { slept.Add(int64(f)); <-time.After(f) })
				left := d.Left()
				if at := time.Since(began) + left; at != test.want {
					t.Errorf("%v left, so it strikes at %v, want %v", left, at, test.want)
				}
				<-d.Context().Done()
				if took := time.Since(began); took != test.want || context.Cause(d.Context()) != errLate {
					t.Errorf("%v after %v, want %v after %v", context.Cause(d.Context()), took, errLate, test.want)
				}
			})
		})
	}
}

// A Deadline does not act after Stop, or after its parent has ended.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		stopped, ended := New(parent, time.Second, errLate, nil), New(parent, time.Second, errLate, nil)
		defer ended.Stop()
		resume := stopped.Pause()
		stopped.Stop()
		resume()
		over := errors.New("over")
		cancel(over)
		wait(5)
		if got := context.Cause(stopped.Context()); got != context.Canceled {
			t.Errorf("stopped: %v", got)
		}
		if got := context.Cause(ended.Context()); got != over {
			t.Errorf("the parent has ended: %v", got)
		}
	})
}
