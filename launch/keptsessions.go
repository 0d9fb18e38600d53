package launch

import (
	"fmt"

	"remshell/job"
)

// maxKeptShown is the maximum number of session directories that the report at the end of a job lists. --report lists
// all.
const maxKeptShown = 12

// formatKeptSessions returns report lines about session directories of Open MPI that were not removed (rule
// PMIX-56).
func formatKeptSessions(hosts []job.NodeTotal) (lines []string) {
	more := 0
	for _, h := range hosts {
		for _, dir := range h.KeptSessions {
			if len(lines) == maxKeptShown {
				more++
				continue
			}
			lines = append(lines, "Open MPI's session directory was not removed: "+h.Node+":"+dir)
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d more session directories were not removed; --report lists all", more))
	}
	return lines
}
