package launch

import (
	"fmt"
	"time"

	"remshell/hostlist"
	"remshell/job"
)

// clock writes a time as hours, minutes and seconds.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

func numbers(plans []job.RankPlan) []int {
	list := make([]int, len(plans))
	for i, p := range plans {
		list[i] = p.Rank
	}
	return list
}

// fold writes a set of host names in brackets: "node[03-17]".
func fold(names []string) string { return hostlist.Fold(names) }
