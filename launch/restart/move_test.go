package restart

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/plan"
)

// Whether a job may be moved, and where to: its old claims do not count, and nodes that it leaves
// are excluded. Without --from and --to it goes where it would start now (SV-17). Each node has
// four CPUs; the job runs on b and c.
func TestMoved(t *testing.T) {
	now := job.Attempt{Nodes: []string{"b", "c"}, Size: 8}
	away := job.Attempt{Kind: job.EndByMove, Nodes: []string{"a", "b"}, Size: 8, LeftNodes: []string{"a"}, NextNodes: []string{"b", "c"}}
	for _, test := range []struct {
		name     string
		attempts []job.Attempt
		move     Move
		up       string
		want     string
	}{
		{"from one", nil, Move{From: []string{"b"}}, "abcd", "c:0-3 a:4-7, leaves b"},
		{"from one, to another", nil, Move{From: []string{"b"}, To: []string{"c", "d"}}, "abcd", "c:0-3 d:4-7, leaves b"},
		{"to others", nil, Move{To: []string{"a", "d"}}, "abcd", "a:0-3 d:4-7"},
		{"to some of its own", nil, Move{To: []string{"d", "c"}}, "abcd", "c:0-3 d:4-7"},
		{"anywhere", nil, Move{}, "abcd", "a:0-3 b:4-7"},
		{"anywhere, and there is nothing else", nil, Move{}, "bc", "b:0-3 c:4-7, where it is"},
		{"to too few", nil, Move{To: []string{"a"}}, "abcd", plan.CodeNotEnough},
		{"to who does not answer", nil, Move{To: []string{"a", "d"}}, "abc", plan.CodeNotEnough},
		{"from all", nil, Move{From: []string{"a", "b", "c", "d"}}, "abcd", plan.CodeNoNodes + ", leaves a,b,c,d"},
		{"from and to the same", nil, Move{From: []string{"a"}, To: []string{"a"}}, "abcd", plan.CodeNoNodes + ", leaves a"},
		{"what it has left before stays out", []job.Attempt{away}, Move{}, "abcd", "b:0-3 c:4-7, where it is"},
		{"by another name, in capitals", nil, Move{From: []string{"B.EXAMPLE"}}, "abcd", "c:0-3 a:4-7, leaves b"},
		{"from a stranger", nil, Move{From: []string{"b", "x"}}, "abcd", "the job cannot be moved: x is not among the hosts with which the job was started"},
		{"to a stranger", nil, Move{To: []string{"x"}}, "abcd", "the job cannot be moved: x is not among the hosts with which the job was started"},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := cluster(eight...)
			first.Nodes[1].Aliases = []string{"b.example"}
			req, leaves, got := RequestAfterMove(first, test.attempts, now, test.move)
			if got == "" {
				got = strings.TrimSpace(planned(req, test.up))
				old := job.Plan{Nodes: []job.NodePlan{{Name: "b", Ranks: make([]job.RankPlan, 4)}, {Name: "c", Ranks: make([]job.RankPlan, 4)}}}
				if p, err := plan.Make(req, snapshot(req, test.up)); err == nil && IsSamePlan(old, p) {
					got += ", where it is"
				}
			}
			if len(leaves) > 0 {
				got += ", leaves " + strings.Join(leaves, ",")
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Jobs that cannot be moved, each with the reason that the requester gets.
func TestUnmovable(t *testing.T) {
	saves := job.CheckpointPolicy{Command: "save"}
	for _, test := range []struct {
		req  job.Request
		want string
	}{
		{job.Request{Restart: job.RestartPolicy{MaxRestarts: 1}, Checkpoint: saves}, ""},
		{job.Request{Restart: job.RestartPolicy{MaxRestarts: job.UnlimitedRestarts}, Checkpoint: job.CheckpointPolicy{Signal: job.SIGUSR1}}, ""},
		{job.Request{Checkpoint: saves}, "was started without --restart"},
		{job.Request{Restart: job.RestartPolicy{MaxRestarts: 1}, Checkpoint: job.CheckpointPolicy{DoneFile: "f"}}, "was started without --ckpt-signal and --ckpt-cmd"},
		{job.Request{Restart: job.RestartPolicy{MaxRestarts: 1}, Checkpoint: saves, EndPolicy: job.EndPolicy{LeaveChildren: true}}, "--leave-children"},
	} {
		if got := WhyUnmovable(test.req); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.req, got, test.want)
		}
	}
}

// The attempt after a move begins at once, on the nodes claimed for it and on no others. It does
// not count as a restart, and the ranks' environment says so.
func TestMovesCountForNothing(t *testing.T) {
	once := job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByNodeLoss}}
	attempts := attemptsOf(job.EndByMove, job.ExitCheckpointed, 2, 2, 2)
	if got := Decide(once, attempts, 1); got != (Decision{Restarts: true}) {
		t.Errorf("%+v", got)
	}
	failed := append(attempts, attemptsOf(job.EndByNodeLoss, 125, 60)...)
	if got := Decide(once, failed, 0); got != (Decision{Restarts: true, Pause: 5 * time.Second}) || RestartsLeft(once, failed) != "0" || RestartNumber(once, failed) != "1 of 1" {
		t.Errorf("%+v, %s left, %s", got, RestartsLeft(once, failed), RestartNumber(once, failed))
	}
	if got := Decide(once, append(failed, attemptsOf(job.EndByNodeLoss, 125, 60)...), 0); got.Why != "--restart 1 allows no more restarts" {
		t.Errorf("%+v", got)
	}
	req := cluster(eight...)
	last := job.Attempt{Kind: job.EndByMove, Nodes: []string{"a", "b"}, Size: 8, LeftNodes: []string{"a"}, NextNodes: []string{"d", "b"}}
	next := NextRequest(req, []job.Attempt{last})
	if got := planned(next, "abcd"); got != " d:0-3 b:4-7" {
		t.Errorf("it goes to%s", got)
	}
	if got := job.EnvValue(next.GlobalEnv, "MPIEXEC_RESTART_REASON") + " " + job.EnvValue(next.GlobalEnv, "MPIEXEC_RESTARTS_LEFT"); got != "move 3" {
		t.Errorf("ranks are told %q", got)
	}
	last.NextNodes = nil // a target node was lost
	if got := planned(NextRequest(req, []job.Attempt{last}), "abcd"); got != " b:0-3 c:4-7" {
		t.Errorf("it goes to%s", got)
	}
}

// If a node's part of the new plan is within what the job has there, nothing is claimed.
func TestIsCovered(t *testing.T) {
	part := func(gpuAt string, ranks ...[]int) (np job.NodePlan) {
		for _, cpus := range ranks {
			np.Ranks = append(np.Ranks, job.RankPlan{RankResources: &job.RankResources{ClaimedCPUs: cpus}})
		}
		if gpuAt != "" {
			np.Ranks[0].GPUs = []gpu.GPU{{Address: gpuAt}}
		}
		return np
	}
	for i, test := range []struct {
		old, part job.NodePlan
		want      bool
	}{
		{part("", []int{0}, []int{1}), part("", []int{1}), true},
		{part("", []int{0}, []int{1}), part("", []int{0, 1}), true},
		{part("", []int{0}, []int{1}), part("", []int{2}), false},
		{part("", []int{0, 1}), part("", []int{0}, []int{1}), false}, // more ranks than are counted
		{part("g", []int{0}), part("g", []int{0}), true},
		{part("", []int{0}), part("g", []int{0}), false},
		{job.NodePlan{}, part("", []int{0}), false},
	} {
		if got := IsCovered(test.old, test.part); got != test.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// ParseMove reads what Args writes, and refuses other arguments.
func TestMoveArgs(t *testing.T) {
	m := Move{From: []string{"n1", "n2", "n3"}, To: []string{"gpu7"}}
	words, err := m.Args()
	if got, err2 := ParseMove(words); err != nil || err2 != nil || !reflect.DeepEqual(got, m) || !slices.Equal(words, []string{"from=n[1-3]", "to=gpu7"}) {
		t.Errorf("%q, %+v, %v, %v", words, got, err, err2)
	}
	many := make(map[string]bool)
	for i := range 1000 {
		many[fmt.Sprintf("n%dx%d", i*7919%1000, i)] = true
	}
	if _, err := (Move{To: slices.Collect(maps.Keys(many))}).Args(); err == nil || !strings.Contains(err.Error(), "list of hosts of --to") {
		t.Errorf("%v", err)
	}
	for _, words := range [][]string{{"n1"}, {"from=n1", "from=n2"}, {"to="}, {"to=n1:4"}, {"from=n[1-"}, {"to=" + strings.Repeat("n", maxMoveText+1)}} {
		if m, err := ParseMove(words); err == nil {
			t.Errorf("%q is %+v", words, m)
		}
	}
}

// Any arguments of a request are parsed or refused, and a job can be planned with the result.
func FuzzParseMove(f *testing.F) {
	f.Add("from=b", "to=c,d")
	f.Add("to=n[1-9999999]", "")
	f.Add("from=[a-b]", "x")
	f.Fuzz(func(t *testing.T, one, two string) {
		if m, err := ParseMove([]string{one, two}); err == nil {
			RequestAfterMove(cluster(eight...), nil, job.Attempt{Nodes: []string{"a", "b"}, Size: 8}, m)
		}
	})
}
