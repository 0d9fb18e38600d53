package launch

import (
	"reflect"
	"testing"

	"remshell/job"
	"remshell/launch/supervise"
)

// A lost node may be used again if the job does not fit without it, and the report says so. A node
// that was lost twice is not used again, nor one that was added by a spawn.
func TestLostNodesThatMayBeUsedAgainAreReported(t *testing.T) {
	l := attemptLoop{request: job.Request{Nodes: []job.NodeDef{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}, Restart: job.RestartPolicy{MaxRestarts: 3}, Apps: []job.App{{N: 3, Argv: []string{"x"}}}}}
	nodes := []string{"n1", "n2", "n3"}
	for _, step := range []struct {
		lost []string
		want supervise.NextAttempt
	}{
		{[]string{"n2", "joined"}, supervise.NextAttempt{Number: "1 of 3", ExcludedNodes: []string{"joined"}, LastResortNodes: []string{"n2"}}},
		{[]string{"n2", "n3"}, supervise.NextAttempt{Number: "2 of 3", ExcludedNodes: []string{"n2"}, LastResortNodes: []string{"n3"}}},
	} {
		l.attempts = append(l.attempts, job.Attempt{Kind: job.EndByNodeLoss, Nodes: nodes, Lost: step.lost})
		if got := l.restartAfter(step.lost); !reflect.DeepEqual(*got, step.want) {
			t.Errorf("%v was lost: %+v; want %+v", step.lost, *got, step.want)
		}
	}
}
