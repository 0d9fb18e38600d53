package status

import (
	"testing"
	"time"

	"remshell/job"
)

// Ranks that did not reply are in the table, too.
func TestFormatRankStates(t *testing.T) {
	states := []job.RankState{
		{Rank: 1, Phase: "running", PMI: job.PMIOpen, Barrier: 2, CPU: 1500 * time.Millisecond, WaitChannel: "do_poll", ProcState: "S"},
		{Rank: 0, Phase: "running", PMI: job.PMIUnused, ProcState: "R"},
		{Rank: 2, Phase: "over", CPU: time.Second},
	}
	want := "  rank  node  state              CPU     waits in\n" +
		"  0     a     not yet connected  0.00 s\n" +
		"  1     a     in barrier 2       1.50 s  do_poll\n" +
		"  2     b     over               1.00 s\n" +
		"  3     b     no answer\n"
	if got := formatRankStates([]string{"a", "a", "b", "b"}, states, []int{0}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// The connection to PMI is described only for programs linked with MPI.
	want = "  rank  node  state              CPU     waits in\n" +
		"  0     a     running            0.00 s\n" +
		"  1     a     not yet connected  0.00 s\n"
	if got := formatRankStates([]string{"a", "a"}, []job.RankState{states[1], {Rank: 1, Phase: "running", ProcState: "S", WaitsFor: job.NotConnected}}, []int{0}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
