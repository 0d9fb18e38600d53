package restart

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/test/doctable"
)

// doc/supervision.md has the table of the ends that are restarted, by --restart-on (SV-1); -update
// writes it.
func TestTableOfWhatCounts(t *testing.T) {
	ends := []struct {
		name string
		kind job.EndKind
		code int
	}{
		{"a node is lost", job.EndByNodeLoss, job.ExitInternal},
		{"a rank dies by a signal", job.EndBySignal, 139},
		{"a rank calls MPI_Abort", job.EndByAbort, 3},
		{"a rank ends with 3", job.EndByExitCode, 3},
		{"ranks end with 85", job.EndByExitCode, job.ExitCheckpointed},
		{"a program cannot be executed, or not in time", job.EndByStartFailure, job.ExitNotFound},
		{"a user moves the job with `--migrate`", job.EndByMove, job.ExitCheckpointed},
		{"0, ^C, SIGTERM, `--end`, `-timeout`, a limit, internal errors", "", 130},
	}
	policies := []struct {
		name  string
		used  int
		which job.RestartPolicy
	}{
		{"no `--restart`", 0, job.RestartPolicy{}},
		{"`node`", 0, job.RestartPolicy{MaxRestarts: 1, On: onNode}},
		{"`code`", 0, job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByExitCode}}},
		{"`code:85`", 0, job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByExitCode}, Codes: []int{85}}},
		{"`any`", 0, job.RestartPolicy{MaxRestarts: 1, On: job.EndKinds}},
		{"`any`, none left", 1, job.RestartPolicy{MaxRestarts: 1, On: job.EndKinds}},
	}
	var table strings.Builder
	table.WriteString("| the attempt ends because |")
	for _, p := range policies {
		fmt.Fprintf(&table, " %s |", p.name)
	}
	table.WriteString("\n|---" + strings.Repeat("|---", len(policies)) + "|\n")
	for _, end := range ends {
		fmt.Fprintf(&table, "| %s |", end.name)
		for _, p := range policies {
			cell := "-" // without restarts no job can be moved
			if end.kind != job.EndByMove || p.which.MaxRestarts > 0 {
				d := Decide(p.which, append(attemptsOf(job.EndByNodeLoss, 125, make([]int, p.used)...), attemptsOf(end.kind, end.code, 60)...), 0)
				cell = strings.TrimSuffix("over: "+d.Why, ": ")
				if d.Restarts {
					cell = strings.Replace(fmt.Sprintf("again after %v", d.Pause), "after 0s", "at once", 1)
				}
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteString("\n")
	}
	doctable.CheckTable(t, "../../doc/supervision.md", "<!-- begin of the table of what counts -->\n", "<!-- end of the table of what counts -->\n", table.String(), *update,
		"go test ./launch/restart -run TestTableOfWhatCounts -update")
}

// doc/supervision.md has the table of where the next attempt runs, and with how many ranks (SV-4,
// SV-5, SV-17); -update writes it. The job has eight ranks on a and b; there are c and d, too, with
// four CPUs each.
func TestTableOfWhereAgain(t *testing.T) {
	lost := func(names ...string) job.Attempt { return ran(job.EndByNodeLoss, 125, names...) }
	two, away := job.Attempt{Kind: job.EndByStartFailure, Nodes: []string{"a", "b"}, Failed: []string{"a"}}, ran(job.EndByMove, 85)
	away.LeftNodes, away.NextNodes = []string{"b"}, []string{"d", "a"}
	back := ran(job.EndBySignal, 139)
	back.Nodes = []string{"d", "a"}
	var table strings.Builder
	table.WriteString("| before | reachable | next attempt |\n|---|---|---|\n")
	for _, test := range []struct {
		name     string
		attempts []job.Attempt
		up       string
		apps     []job.App
		least    int
	}{
		{"a rank has failed", []job.Attempt{ran(job.EndByExitCode, 3)}, "abcd", eight, 0},
		{"a was lost", []job.Attempt{lost("a")}, "bcd", eight, 0},
		{"a was lost, and is back", []job.Attempt{lost("a")}, "abcd", eight, 0},
		{"a was lost, d is a standby node", []job.Attempt{withStandby(lost("a"), "d")}, "bcd", eight, 0},
		{"a was lost and is back, and there is no other", []job.Attempt{lost("a")}, "ab", eight, 0},
		{"a was lost twice", []job.Attempt{lost("a"), lost("a")}, "ab", eight, 0},
		{"a program did not start on a, twice", []job.Attempt{two, two}, "abcd", eight, 0},
		{"a was lost", []job.Attempt{lost("a")}, "b", eight, 0},
		{"the same, `--min-ranks 3`", []job.Attempt{lost("a")}, "b", eight, 3},
		{"the same, `--min-ranks 5`", []job.Attempt{lost("a")}, "b", eight, 5},
		{"the same, `-soft 2,6,8`", []job.Attempt{lost("a")}, "b", []job.App{{Soft: []int{8, 6, 2}, Argv: []string{"x"}}}, 0},
		{"it was moved from b, to d and a", []job.Attempt{away}, "abcd", eight, 0},
		{"and a rank has failed there", []job.Attempt{away, back}, "abcd", eight, 0},
		{"and d was lost since", []job.Attempt{away, func() job.Attempt { a := back; a.Lost = []string{"d"}; return a }()}, "abc", eight, 0},
	} {
		goes := strings.TrimSpace(planned(NextRequest(with(cluster(test.apps...), func(r *job.RestartPolicy) { r.MinRanks = test.least }), test.attempts), test.up))
		if strings.Contains(goes, ":") {
			goes = strings.ReplaceAll(goes, " ", ", ")
		} else {
			goes = "none: `" + goes + "`"
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", test.name, strings.Join(strings.Split(test.up, ""), ", "), goes)
	}
	doctable.CheckTable(t, "../../doc/supervision.md", "<!-- begin of the table of where again -->\n", "<!-- end of the table of where again -->\n", table.String(), *update,
		"go test ./launch/restart -run TestTableOfWhereAgain -update")
}
