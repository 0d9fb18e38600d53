package words

import (
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/launch/supervise"
	"remshell/text"
)

// FormatFreed says what was freed: "freed 2 shared memory segments (128 MiB) and 3 files in /dev/shm (1 MiB) of ranks 2-3".
func FormatFreed(freed []job.Leftover, firsts []int) string {
	var parts []string
	for _, of := range []struct{ kind, noun, where string }{{job.LeftoverSysVShm, "shared memory segment", ""}, {job.LeftoverPosixShm, "file", " in /dev/shm"}} {
		count, bytes := 0, int64(0)
		for _, r := range freed {
			if r.Kind == of.kind {
				count, bytes = count+1, bytes+r.Bytes
			}
		}
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%s%s (%s)", text.Count(count, of.noun), of.where, text.FormatBytes(bytes)))
		}
	}
	return "freed " + strings.Join(parts, " and ") + FormatOfRanks(freed, firsts)
}

// FormatOfRanks names the ranks that have left something: " of ranks 2-3"; nothing, where nobody knows one.
func FormatOfRanks(left []job.Leftover, firsts []int) string {
	byGroup := make([][]int, len(firsts))
	for _, r := range left {
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

// maxKeptShown is how many directories are told of at the end; the report has all.
const maxKeptShown = 12

// FormatKeptSessions tells which directories of Open MPI's files stay (PMIX-56).
func FormatKeptSessions(hosts []job.NodeTotal) (lines []string) {
	more := 0
	for _, h := range hosts {
		for _, dir := range h.KeptSessions {
			if len(lines) == maxKeptShown {
				more++
				continue
			}
			lines = append(lines, "the session directory of Open MPI stays: "+h.Node+":"+dir)
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more stay; --report names all", more))
	}
	return lines
}
