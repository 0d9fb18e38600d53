package launch

import (
	"testing"
	"time"

	"remshell/job"
)

// The report of aprun.
func TestAprunText(t *testing.T) {
	use := func(user, system, rss int) job.Usage {
		return job.Usage{User: time.Duration(user) * time.Second, System: time.Duration(system) * time.Second, MaxRSS: int64(rss) << 20}
	}
	r := job.Result{NodeTotals: []job.NodeTotal{{Usage: use(60, 1, 50)}, {Usage: use(36, 1, 20)}}}
	r.NodeTotals[0].Usage.InBlocks, r.NodeTotals[1].Usage.InBlocks = 3, 4
	r.NodeTotals[0].Usage.OutBlocks, r.NodeTotals[1].Usage.OutBlocks = 130, 0
	if got := aprunText("j1", r); got != "Application j1 resources: utime 96s, stime 2s, rss 51200kb, inblocks 7, outblocks 130\n" {
		t.Error(got)
	}
	r.Exits = []*job.Exit{{Code: 3}, {Signal: 9}, {}, {Code: 1}, {Code: 3}, {Signal: 9}}
	if got := aprunText("j1", r); got != "exit codes: 3, 1\nexit signals: Killed\nApplication j1 resources: utime 96s, stime 2s, rss 51200kb, inblocks 7, outblocks 130\n" {
		t.Error(got)
	}
}

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

// A limited number of kept directories is listed, with the number of the others.
func TestFormatKeptSessions(t *testing.T) {
	hosts := []job.NodeTotal{{Node: "a", KeptSessions: []string{"/tmp/rs-1"}}, {Node: "b"}, {Node: "c", KeptSessions: []string{"/tmp/rs-2", "/tmp/rs-3"}}}
	const want = "the session directory of Open MPI stays: c:/tmp/rs-3"
	if got := formatKeptSessions(hosts); len(got) != 3 || got[2] != want || formatKeptSessions(hosts[1:2]) != nil {
		t.Errorf("told is %q", got)
	}
	hosts[1].KeptSessions = make([]string, maxKeptShown)
	if got := formatKeptSessions(hosts); len(got) != maxKeptShown+1 || got[maxKeptShown] != "and 3 more stay; --report names all" {
		t.Errorf("told is %q", got)
	}
}
