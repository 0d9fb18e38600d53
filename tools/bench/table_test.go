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

// samples have the given wall times, in milliseconds, and a tenth of that as CPU time.
func samples(wall ...int) (list []sample) {
	for _, n := range wall {
		d := time.Duration(n) * time.Millisecond
		list = append(list, sample{wall: d, cpu: d / 10})
	}
	return list
}

// A round in which the machine was busy makes both sides slow, and no ratio wrong.
func TestRatioIsOfRounds(t *testing.T) {
	r := row{sides: [3][]sample{samples(10, 100, 100), samples(20, 200, 200)}}
	if got := r.ratio(wall); got != 0.5 {
		t.Errorf("got %v, want 0.5", got)
	}
}

func TestTable(t *testing.T) {
	rows := []row{
		{"true, 64 hosts", hydra, [3][]sample{samples(1200, 1000), samples(4000, 4000), samples(700, 900)}},
		{"hello, 8 hosts", hydra, [3][]sample{samples(50), samples(40), nil}},
		{"first start, 8 hosts", copies, [3][]sample{samples(90), samples(100), samples(80)}},
		{"Open MPI hello, 8 hosts", mpirun, [3][]sample{samples(50), samples(200), nil}},
	}
	got := table(rows) + verdicts(rows)
	for _, want := range []string{
		"| true, 64 hosts | 2 | 1100 (1000) | 4000 (4000) | 0.275 | 800 (700) | 110 (100) | 400 (400) | 0.275 | 80.0 (70.0) |\n",
		"| hello, 8 hosts | 1 | 50.0 (50.0) | 40.0 (40.0) | 1.250 | - | 5.0 (5.0) | 4.0 (4.0) | 1.250 | - |\n",
		"| ms, medians | rounds | wall: ours | mpirun | ratio | floor | CPU: ours | mpirun | ratio | floor |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n| Open MPI hello, 8 hosts | 1 | 50.0 (50.0) | 200 (200) | 0.250 | - |",
		"| ms, medians | rounds | wall: ours | scp | ratio | floor | CPU: ours | scp | ratio | floor |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n| first start, 8 hosts | 1 | 90.0 (90.0) | 100 (100) | 0.900 |",
		"- first start, 8 hosts, wall: 0.900 of the other's; goal at most 1.300: reached\n",
		"- true, 64 hosts, CPU: 0.275 of the other's; goal at most 0.033: MISSED\n",
		"- true, 64 hosts, wall: 0.275 of the other's; goal at most 0.300: reached\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line\n%sin\n%s", want, got)
		}
	}
}

// Memory is that of mpiexec alone, so it is divided by the hosts; the median of the rounds counts.
func TestScaleTable(t *testing.T) {
	r := scaleRow{scaleCase: scaleCase{hosts: 100}, samples: samples(1000, 3000, 2000)}
	for i, peak := range []int64{20 << 20, 90 << 20, 25 << 20} {
		r.samples[i].peak = peak
	}
	want := "| scale, 100 hosts | 2000 (1000) | 200 (100) | 25.0 | 2.00 | 256 |\n"
	if got := scaleTable([]scaleRow{r}); !strings.HasSuffix(got, want) {
		t.Errorf("got %s want %s", got, want)
	}
	if got := scaleTable(nil); got != "" {
		t.Errorf("no rows: %q", got)
	}
}
