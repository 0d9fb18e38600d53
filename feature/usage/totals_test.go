package usage

import (
	"math"
	"testing"
	"time"

	"remshell/job"
)

// The maximum of a job is the largest sum of one moment, not the sum of the nodes' maxima (example
// 18 of the page).
func TestTotals(t *testing.T) {
	const mb = 1000 * 1000
	type told struct {
		after time.Duration // -1: the node is drained
		node  int
		mem   int64
		cpu   time.Duration
	}
	for _, test := range []struct {
		name string
		told []told
		mem  int64
		cpu  time.Duration
	}{
		{"example 18", []told{{0, 0, 100 * mb, 0}, {0, 1, 250 * mb, 0}, {time.Second, 0, 300 * mb, 0}, {time.Second, 1, 40 * mb, 0}}, 350 * mb, 0},
		{"in another order", []told{{0, 1, 250 * mb, 0}, {300 * time.Millisecond, 0, 100 * mb, 0}, {time.Second, 1, 40 * mb, 0}, {1900 * time.Millisecond, 0, 300 * mb, 0}}, 350 * mb, 0},
		{"one is late", []told{{0, 0, 100, 0}, {0, 1, 50, 0}, {time.Second, 0, 10, 0}, {2 * time.Second, 0, 200, 0}, {2 * time.Second, 1, 1, 0}}, 201, 0},
		{"one is silent, and its last word counts", []told{{0, 0, 100, 0}, {0, 1, 50, 0}, {10 * time.Second, 0, 120, 0}, {11 * time.Second, 0, 1, 0}}, 170, 0},
		{"one is silent for too long", []told{{0, 0, 100, 0}, {0, 1, 50, 0}, {20 * time.Second, 0, 140, 0}, {21 * time.Second, 0, 1, 0}}, 150, 0},
		{"one is over", []told{{0, 0, 100, 3}, {0, 1, 50, 4}, {-1, 1, 0, 0}, {time.Second, 0, 120, 5}}, 150, 9},
		{"time never falls", []told{{0, 0, 1, 30}, {0, 1, 1, 5}, {time.Second, 0, 1, 20}, {time.Second, 1, 1, 6}}, 2, 36},
		{"a liar harms his own figures", []told{{0, 0, 100, 1}, {0, 1, math.MaxInt64, math.MaxInt64}}, math.MaxInt64, math.MaxInt64},
	} {
		t.Run(test.name, func(t *testing.T) {
			var tally Totals
			began := time.Unix(1e9, 0)
			for _, s := range test.told {
				if s.after < 0 {
					tally.NodeDone(s.node)
					continue
				}
				tally.AddSample(s.node, job.UsageSample{CPU: s.cpu, Mem: s.mem, VMem: s.mem}, began.Add(s.after))
			}
			most, sampled := tally.JobMaximum()
			if !sampled || most.Mem != test.mem || most.CPU != test.cpu {
				t.Errorf("%d bytes, %d ns, want %d, %d", most.Mem, most.CPU, test.mem, test.cpu)
			}
			if own, _ := tally.NodeMaximum(0); own.Mem > 300*mb {
				t.Errorf("node 0 has %d bytes by the word of another", own.Mem)
			}
		})
	}
	if _, sampled := new(Totals).JobMaximum(); sampled {
		t.Error("nobody has told anything")
	}
}
