//go:build linux

package testbed

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// The kernel's fixed point follows the exponential decay of its three averages: after a
// minute of one runnable task the first is 1-1/e.
func TestLoadFormula(t *testing.T) {
	var load averages
	want := [3]float64{}
	for _, step := range []struct{ ticks, active int }{{12, 1}, {120, 1}, {12, 0}, {30, 12}, {2000, 3}} {
		for range step.ticks {
			load = load.next(step.active)
		}
		line := load.line(step.active, 7)
		var got [3]float64
		if n, err := fmt.Sscan(line, &got[0], &got[1], &got[2]); n != 3 || len(line) != loadWidth+1 {
			t.Fatalf("%q: %v", line, err)
		}
		for i, minutes := range []float64{1, 5, 15} {
			fade := math.Exp(-float64(5*step.ticks) / 60 / minutes)
			want[i] = want[i]*fade + float64(step.active)*(1-fade)
			if math.Abs(got[i]-want[i]) > 0.02*max(1, want[i]) {
				t.Errorf("%d ticks with %d: load %.0f is %.2f; want %.3f", step.ticks, step.active, minutes, got[i], want[i])
			}
		}
	}
}

// A busy loop on one host raises the load average of that host only.
func TestOwnLoad(t *testing.T) {
	needNamespaces(t)
	f := New(t, Options{Kind: Namespaces, Hosts: 2, LoadEvery: 20 * time.Millisecond})
	ctx := contextBeforeDeadline(t)
	loop := f.On(ctx, "n1", "sh", "-c", "while [ ! -e /tmp/enough ]; do :; done")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	load := func(host string) (one float64) {
		fmt.Sscan(output(t, f.On(ctx, host, "cat", "/proc/loadavg")), &one)
		return one
	}
	for load("n1") < 0.9 || load("n2") > 0.3 {
		if ctx.Err() != nil {
			t.Fatalf("n1 %.2f, n2 %.2f", load("n1"), load("n2"))
		}
		<-time.After(20 * time.Millisecond)
	}
	output(t, f.On(ctx, "n1", "touch", "/tmp/enough"))
	if err := loop.Wait(); err != nil {
		t.Error(err)
	}
	for load("n1") > 0.3 {
		<-time.After(20 * time.Millisecond)
	}
	machine, _ := os.ReadFile("/proc/loadavg")
	if strings.Contains(string(machine), " 0  ") {
		t.Errorf("the machine's own file is covered: %q", machine)
	}
}

func TestOwnLoadRefused(t *testing.T) {
	for _, o := range []Options{{Kind: Loopback, Hosts: 1, LoadEvery: 1}, {Kind: InProcess, Hosts: 1, LoadEvery: 1}} {
		if f, err := Up(t.Context(), o); err == nil {
			f.Down()
			t.Errorf("%s: a load of its own", o.Kind)
		}
	}
}
