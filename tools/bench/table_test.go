//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, test := range tests {
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v): got %v, want %v", test.values, got, test.want)
		}
	}
}

// samples returns samples with the given wall times in milliseconds, and a tenth of these as CPU times.
func samples(wall ...int) (list []sample) {
	for _, n := range wall {
		d := time.Duration(n) * time.Millisecond
		list = append(list, sample{wall: d, cpu: d / 10, peak: 20 << 20})
	}
	return list
}

// Ratios are taken within a round: a busy machine slows down both sides and does not change the ratio. Without a peer
// the value itself is compared with the goal.
func TestRows(t *testing.T) {
	peer := []string{"peer"}
	for _, test := range []struct {
		c     testCase
		sides [3][]sample
		want  string
	}{
		{testCase{name: "true, 64 hosts", theirs: peer, figures: []figure{{"ms", wallTime, 0.3}, {"ms of CPU", cpuTime, 0.033}}}, [3][]sample{samples(1200, 1000), samples(4000, 4000), samples(700, 900)},
			"| true, 64 hosts, ms | 2 | 1100 (1000) | 4000 (4000) | 800 (700) | 0.275 | 0.3 | reached |\n" +
				"| true, 64 hosts, ms of CPU | 2 | 110 (100) | 400 (400) | 80.0 (70.0) | 0.275 | 0.033 | MISSED |\n"},
		{testCase{name: "a busy round", theirs: peer, figures: wallTimeGoal(0)}, [3][]sample{samples(10, 100, 100), samples(20, 200, 200)},
			"| a busy round, ms | 3 | 100 (10.0) | 200 (20.0) |  | 0.500 |  | |\n"},
		{testCase{name: "plan", figures: []figure{{"ms", wallTime, 2000}, {"MiB", peakMemory, 16}}}, [3][]sample{samples(2000)},
			"| plan, ms | 1 | 2000 (2000) |  |  |  | 2000 | reached |\n| plan, MiB | 1 | 20.0 (20.0) |  |  |  | 16 | MISSED |\n"},
	} {
		if got := tableLines(test.c, test.sides); got != test.want {
			t.Errorf("got\n%swant\n%s", got, test.want)
		}
	}
}

// Each case has a unique name, commands and figures. Commands for batch jobs contain no single quote (see quote).
func TestCases(t *testing.T) {
	names := make(map[string]bool)
	b := bench{ours: "/ours", hydra: "/hydra", mpirun: "/mpirun", self: "/self"}
	for _, g := range b.groups("/dir") {
		for _, c := range g.cases {
			if names[c.name] || len(c.ours) < 2 || c.figures == nil || c.rounds.least == 0 || g.batch != nil && strings.Contains(strings.Join(append(c.ours, c.theirs...), " "), "'") {
				t.Errorf("%+v", c)
			}
			names[c.name] = true
		}
	}
}
