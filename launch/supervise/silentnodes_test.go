package supervise

import (
	"reflect"
	"testing"
	"time"

	"remshell/batch"
)

// RM-40: a silent node is lost when the batch system has said twice that the job runs. Only time in
// which mpiexec ran counts.
func TestSilentNodes(t *testing.T) {
	lost := NodeLost{1, "no message for 45s, although Slurm reports that the job runs"}
	for name, test := range map[string]struct {
		said  func(second int) batch.State // the batch system's answer at that time
		beats func(second int) bool        // whether node 1 is heard from; node 0 always is
		stop  int                          // in that second mpiexec is stopped for a minute
		until int
		want  []Event
		asks  []int
	}{
		"it beats":   {said: constantly(batch.Runs), beats: func(s int) bool { return s%10 == 0 }, until: 600},
		"it is lost": {said: constantly(batch.Runs), beats: func(s int) bool { return s == 0 }, until: 50, want: []Event{lost}, asks: []int{30, 45}},
		"it is suspended, and goes on": {said: func(s int) batch.State {
			if s < 100 {
				return batch.Suspended
			}
			return batch.Runs
		}, beats: func(s int) bool { return s == 0 || s >= 101 }, until: 300, asks: []int{30, 60, 90}},
		"it is suspended, and dies": {said: func(s int) batch.State {
			if s < 70 {
				return batch.Suspended
			}
			return batch.Runs
		}, beats: func(s int) bool { return s == 0 }, until: 96, want: []Event{NodeLost{1, "no message for 1m35s, although Slurm reports that the job runs"}}, asks: []int{30, 60, 90, 95}},
		"nobody can say":   {said: constantly(batch.Unknown), beats: func(s int) bool { return s == 0 }, until: 121, asks: []int{30, 60, 90, 120}},
		"the job is ended": {said: constantly(batch.Over), beats: func(s int) bool { return s == 0 }, until: 31, want: []Event{Failure{Kind: BatchEndsJob}}, asks: []int{30}},
		"we were stopped":  {said: constantly(batch.Runs), beats: func(s int) bool { return s == 0 }, stop: 20, until: 105},
		"it was slow":      {said: constantly(batch.Runs), beats: func(s int) bool { return s == 0 || s == 44 }, until: 70, asks: []int{30}},
	} {
		t.Run(name, func(t *testing.T) {
			var s SilentNodes
			var asks []int
			var news []Event
			start := time.Unix(1000, 0)
			heard := map[int]time.Time{0: start, 1: start}
			for second := 0; second <= test.until; second++ {
				now := start.Add(time.Duration(second) * time.Second)
				heard[0] = now
				if test.beats(second) {
					heard[1] = now
				}
				if second%5 != 0 || test.stop > 0 && second > test.stop && second < test.stop+60 {
					continue
				}
				if s.Check(heard, now) {
					asks = append(asks, second)
					news = append(news, s.BatchReplied(test.said(second), "slurm", now)...)
				}
			}
			if !reflect.DeepEqual(asks, test.asks) || !reflect.DeepEqual(news, test.want) {
				t.Errorf("asked at %v, want %v; news %v, want %v", asks, test.asks, news, test.want)
			}
		})
	}
}

func constantly(said batch.State) func(int) batch.State { return func(int) batch.State { return said } }

// The batch system is not asked while an answer is pending.
func TestBatchIsAskedOnce(t *testing.T) {
	var s SilentNodes
	start := time.Unix(1000, 0)
	heard := map[int]time.Time{1: start}
	for second := 0; second <= 100; second += 5 {
		if ask := s.Check(heard, start.Add(time.Duration(second)*time.Second)); ask != (second == 30) {
			t.Errorf("%d s: asks %v", second, ask)
		}
	}
}
