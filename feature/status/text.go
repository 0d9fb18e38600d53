package status

import (
	"fmt"
	"slices"

	"remshell/format"
	"remshell/job"
	"remshell/launch/supervise"
)

// formatRankStates returns a table that says what each rank is doing (rule DIAG-12). The ranks are in the order of
// states. names contains the name of each rank's node. firsts contains, for each group, the job-wide number of the
// group's rank 0.
func formatRankStates(names []string, states []job.RankState, firsts []int) string {
	rows := [][]string{{"rank", "node", "state", "CPU", "waits in"}}
	stateOf, connected := make(map[int]job.RankState), slices.ContainsFunc(states, job.RankState.HasConnected)
	for _, r := range states {
		stateOf[r.Rank] = r
	}
	for rank, node := range names {
		r, stateOf := stateOf[rank]
		row := []string{supervise.FormatRank(supervise.GroupOf(firsts, rank)), node, "no answer", "", ""}
		if stateOf {
			row[2], row[3], row[4] = r.Describe(connected), fmt.Sprintf("%.2f s", r.CPU.Seconds()), r.WaitChannel
		}
		rows = append(rows, row)
	}
	return format.Columns(rows)
}
