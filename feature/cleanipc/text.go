package cleanipc

import (
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/launch/supervise"
	"remshell/text"
)

// formatFreed describes what was freed, such as "freed 2 shared memory segments (128 MiB) and 3 files in /dev/shm (1
// MiB) and 1 semaphore set of ranks 2-3". firsts is as in formatOfRanks.
func formatFreed(freed []job.Leftover, firsts []int) string {
	var parts []string
	for _, kind := range []struct{ kind, noun, where string }{{job.LeftoverSysVShm, "shared memory segment", ""}, {job.LeftoverPosixShm, "file", " in /dev/shm"}, {job.LeftoverSysVSem, "semaphore set", ""}} {
		count, bytes := 0, int64(0)
		for _, r := range freed {
			if r.Kind == kind.kind {
				count, bytes = count+1, bytes+r.Bytes
			}
		}
		switch {
		case count > 0 && kind.kind == job.LeftoverSysVSem:
			parts = append(parts, text.Count(count, kind.noun))
		case count > 0:
			parts = append(parts, fmt.Sprintf("%s%s (%s)", text.Count(count, kind.noun), kind.where, text.FormatBytes(bytes)))
		}
	}
	return "freed " + strings.Join(parts, " and ") + formatOfRanks(freed, firsts)
}

// formatOfRanks names the ranks that left memory behind, such as " of ranks 2-3". It returns "" if no rank is known.
// firsts contains, for each group, the job-wide number of the group's rank 0.
func formatOfRanks(leftovers []job.Leftover, firsts []int) string {
	byGroup := make([][]int, len(firsts))
	for _, r := range leftovers {
		if r.Rank < 0 {
			continue
		}
		group, number := supervise.GroupOf(firsts, r.Rank)
		if !slices.Contains(byGroup[group], number) {
			byGroup[group] = append(byGroup[group], number)
		}
	}
	var names []string
	count := 0
	for group, ranks := range byGroup {
		if len(ranks) == 0 {
			continue
		}
		slices.Sort(ranks)
		count += len(ranks)
		name := idset.Text(ranks)
		if group > 0 {
			name = fmt.Sprint(group, ":", name)
		}
		names = append(names, name)
	}
	switch count {
	case 0:
		return ""
	case 1:
		return " of rank " + names[0]
	}
	return " of ranks " + strings.Join(names, ", ")
}
