package restart

import (
	"slices"
	"testing"
	"time"

	"remshell/job"
)

// An attempt that has given way is no failure and counts for nothing; the next one waits for its turn, for as long as that takes, also where nothing
// else is a reason to start again (SV-33).
func TestAfterGivingWay(t *testing.T) {
	first := job.Request{Apps: []job.App{{N: 2, Argv: []string{"x"}}}, Nodes: []job.NodeDef{{Name: "a"}, {Name: "b"}}, Restart: job.Restart{Yields: true}, Limits: job.Limits{Wait: time.Minute}}
	gave := job.Attempt{Kind: job.ByPreemption, Exit: job.ExitCheckpointed, Nodes: []string{"b"}, Size: 2}
	failed := job.Attempt{Kind: job.ByNode, Exit: job.ExitInternal, Nodes: []string{"b"}, Size: 2}
	if next := Next(first.Restart, []job.Attempt{gave}, 1); !next.Again || next.Pause != 0 {
		t.Errorf("%+v", next)
	}
	if next := Next(first.Restart, []job.Attempt{gave, failed}, 1); next.Again || next.Why != "" {
		t.Errorf("without --restart a loss is made good: %+v", next)
	}
	once := job.Restart{Most: 1, On: []job.EndKind{job.ByNode}, Yields: true}
	if next := Next(once, []job.Attempt{gave, gave, failed}, 0); !next.Again || next.Pause != Delay {
		t.Errorf("giving way has taken its restart, or made its pause longer: %+v", next)
	}
	req := Request(first, []job.Attempt{gave})
	if !req.Wait || req.Limits.Wait != 0 || req.Attempt != 1 || req.Nodes[1].Tier != 0 || req.Nodes[0].Tier != 1 {
		t.Errorf("%+v", req)
	}
	if !slices.Contains(req.Given, "MPIEXEC_RESTART_REASON=preempt") {
		t.Errorf("%q", req.Given)
	}
	if req := Request(first, []job.Attempt{gave, failed}); req.Wait || req.Limits.Wait != time.Minute {
		t.Errorf("the attempt after that waits, too: %+v", req)
	}
}
