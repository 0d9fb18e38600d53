package launch

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/supervise"
)

// A panic in the goroutine that serves one node ends the job like any other loss of the node
// (TRUST-35).
func TestAPanicIsALostNode(t *testing.T) {
	s := supervise.NewState(job.Plan{Size: 1, Nodes: []job.NodePlan{{Name: "a", Ranks: []job.RankPlan{{}}}}}, supervise.Policy{}, time.Now())
	s.Step(supervise.NodeLost{Node: 0, Why: "internal error: nil map"}, time.Now())
	if s.Cause == nil || !strings.HasPrefix(s.Cause.Text, "lost contact with a (internal error: ") || s.ExitCode() != job.ExitInternal {
		t.Errorf("%+v", s.Cause)
	}
}
