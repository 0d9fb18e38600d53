package restart

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/plan"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write the tables of doc/spec/survive.md and doc/supervision.md anew")

var (
	eight   = []job.App{{N: 8, Argv: []string{"x"}}}
	onNode  = []job.EndKind{job.EndByNodeLoss}
	four    = job.RestartPolicy{MaxRestarts: 1, On: onNode, MinRanks: 4}
	once    = job.RestartPolicy{MaxRestarts: 1, On: onNode}
	by85    = job.RestartPolicy{MaxRestarts: 2, On: []job.EndKind{job.EndByExitCode}, Codes: []int{85}}
	forEver = job.RestartPolicy{MaxRestarts: job.UnlimitedRestarts, On: job.EndKinds}
)

// ran returns an attempt of eight ranks on a and b that ran for a minute.
func ran(kind job.EndKind, exit int, lost ...string) job.Attempt {
	return job.Attempt{Kind: kind, Exit: exit, Nodes: []string{"a", "b"}, Size: 8, Lost: lost, Ended: time.Time{}.Add(time.Minute)}
}

// crash returns an attempt that ended after two seconds.
func crash() job.Attempt {
	a := ran(job.EndBySignal, 139)
	a.Ended = a.Began.Add(2 * time.Second)
	return a
}

// decisions are the examples of survive.md 12: after each attempt whether there is another one, how
// many restarts are left, and where it runs with the nodes that are reachable.
var decisions = []struct {
	number                 int
	options, happens, then string
	elsewhere              string // the test that shows the example; empty: this one

	policy   job.RestartPolicy
	apps     []job.App
	nodes    int // --min-nodes
	attempts []job.Attempt
	up       []string // reachable nodes after each attempt, for each time that it is planned
	want     string
}{
	{1, "`--restart 1` on a,b", "b lost", "fence, 8 on a, c", "", once, eight, 0, []job.Attempt{ran(job.EndByNodeLoss, 125, "b")}, []string{"acd"},
		"after 5s, 0 left: a:0-3 c:4-7"},
	{2, "the same, hosts are only a, b", "b lost", "8 ranks do not fit 4 CPUs: tries for 10 min, then code 125", "", once, eight, 0, []job.Attempt{ran(job.EndByNodeLoss, 125, "b")}, []string{"a"},
		"after 5s, 0 left: not-enough-cpus"},
	{3, "`--restart 1 --min-ranks 4`, only a, b", "b lost", "4 on a", "", four, eight, 0, []job.Attempt{ran(job.EndByNodeLoss, 125, "b")}, []string{"a"},
		"after 5s, 0 left: a:0-3"},
	{4, "`--restart 1 -soft 2,6,8`, only a, b", "b lost", "2 on a", "", once, []job.App{{Soft: []int{8, 6, 2}, Argv: []string{"x"}}}, 0, []job.Attempt{ran(job.EndByNodeLoss, 125, "b")}, []string{"a"},
		"after 5s, 0 left: a:0-1"},
	{5, "`--restart 1 --spares 1`", "b lost", "8 on a, c; c was claimed from the start", "", once, eight, 0, []job.Attempt{withStandby(ran(job.EndByNodeLoss, 125, "b"), "c")}, []string{"acd"},
		"after 5s, 0 left: a:0-3 c:4-7"},
	{6, "`--restart 2`", "rank exits 3", "over, code 3 (`node` only)", "", job.RestartPolicy{MaxRestarts: 2, On: onNode}, eight, 0, []job.Attempt{ran(job.EndByExitCode, 3)}, []string{"abcd"},
		"over"},
	{7, "`--restart 2 --restart-on code:85`", "all ranks exit 85", "attempt 1, no fence; counts", "", by85, eight, 0, []job.Attempt{ran(job.EndByExitCode, 85)}, []string{"abcd"},
		"after 5s, 1 left: a:0-3 b:4-7"},
	{8, "`--restart always --restart-on any`", "SIGSEGV five times after 2 s", "pauses of 5, 10, 20 and 40 s, then over, code 139", "", forEver, eight, 0, []job.Attempt{crash(), crash(), crash(), crash(), crash()}, make([]string, 5),
		"after 5s, unlimited left; after 10s, unlimited left; after 20s, unlimited left; after 40s, unlimited left; over: each of the last five attempts ran for less than 10s"},
	{number: 9, options: "`--restart 1`", happens: "^C in the pause", then: "over, code 130", elsewhere: "e2e.TestEndBetweenAttempts"},
	{10, "`--restart 3`", "b lost, b back at once", "b is used, last; lost again: never", "", job.RestartPolicy{MaxRestarts: 3, On: onNode}, eight, 0,
		[]job.Attempt{ran(job.EndByNodeLoss, 125, "b"), ran(job.EndByNodeLoss, 125, "b")}, []string{"abd ab", "ab"}, "after 5s, 2 left: a:0-3 d:4-7, a:0-3 b:4-7; after 10s, 1 left: not-enough-cpus"},
	{11, "`--restart 1 --min-nodes 2`, only a, b", "b lost", "waits for b: pauses up to 10 min; b is back: 8 on a, b", "", once, eight, 2, []job.Attempt{ran(job.EndByNodeLoss, 125, "b")}, []string{"a ab"},
		"after 5s, 0 left: no-candidates, a:0-3 b:4-7"},
	{number: 12, options: "`--restart 1 -timeout 60`", happens: "loss at 50 s", then: "the fence would end at 105 s: over at 60 s, code 124", elsewhere: "e2e.TestEndBetweenAttempts"},
	{number: 13, options: "`--restart 1`, stdin a file", happens: "loss", then: "attempt 1 reads it from the start", elsewhere: "script/restart"},
	{number: 14, options: "`--restart 1`, `-outfile-pattern o.%r`", happens: "loss", then: "o.0 has both attempts", elsewhere: "script/restart"},
	{number: 15, options: "`--restart 1 --wait`, c and d busy", happens: "b lost", then: "ticket at the end; a's claim given up", elsewhere: "launch.TestEveryKindIsSaid"},
	{number: 16, options: "`--restart 1`", happens: "MPI_Abort(3), 0.4 s before the loss is noticed", then: "the cause is the loss: restart", elsewhere: "supervise.TestStep"},
	{17, "two app contexts `-n 4 x : -n 4 --min-ranks 2 y`", "6 slots left", "4 x, 2 y", "", job.RestartPolicy{MaxRestarts: 1, On: onNode, MinRanks: 2}, []job.App{{N: 4, Argv: []string{"x"}}, {N: 4, Argv: []string{"y"}}}, 0,
		[]job.Attempt{ran(job.EndByNodeLoss, 125, "b")}, []string{"a6"}, "after 5s, 0 left: a:0-5"},
	{18, "no `--restart`", "b lost", "over, code 125", "", job.RestartPolicy{}, eight, 0, []job.Attempt{ran(job.EndByNodeLoss, 125, "b")}, []string{"acd"}, "over"},
}

// The examples of survive.md have the results that it says; other tests show those that are not
// about decisions. -update writes the table.
func TestExamples(t *testing.T) {
	var table strings.Builder
	table.WriteString("| # | options | what happens | then |\n|---|---|---|---|\n")
	for i, e := range decisions {
		fmt.Fprintf(&table, "| %d | %s | %s | %s |\n", e.number, e.options, e.happens, e.then)
		if e.number != i+1 {
			t.Errorf("example %d is in the place of %d", e.number, i+1)
		}
		if e.elsewhere != "" {
			continue
		}
		var all []string
		for k := range e.attempts {
			req := cluster(e.apps...)
			req.Restart, req.MinNodes = e.policy, e.nodes
			all = append(all, decided(req, e.attempts[:k+1], e.up[k]))
		}
		if got := strings.Join(all, "; "); got != e.want {
			t.Errorf("%d: %s, want %s", e.number, got, e.want)
		}
	}
	doctable.CheckTable(t, "../../doc/spec/survive.md", "<!-- begin of the examples -->\n", "<!-- end of the examples -->\n", table.String(), *update,
		"go test ./launch/restart -run TestExamples -update")
}

// decided describes the decision after the last attempt.
func decided(req job.Request, attempts []job.Attempt, up string) string {
	d := Decide(req.Restart, attempts, 0)
	if !d.Restarts {
		return strings.TrimSuffix("over: "+d.Why, ": ")
	}
	text := fmt.Sprintf("after %v, %s left", d.Pause, RestartsLeft(req.Restart, attempts))
	for i, nodes := range strings.Fields(up) {
		text += []string{":", ","}[min(i, 1)] + planned(NextRequest(req, attempts), nodes)
	}
	return text
}

// planned describes where ranks run, or why they cannot.
func planned(req job.Request, up string) (text string) {
	p, err := plan.Make(req, snapshot(req, up))
	if failed, is := err.(*plan.Error); is {
		return " " + failed.Code
	}
	for _, n := range p.Nodes {
		text += fmt.Sprintf(" %s:%d-%d", n.Name, n.Ranks[0].Rank, n.Ranks[len(n.Ranks)-1].Rank)
	}
	return text
}
