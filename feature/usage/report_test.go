package usage

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
