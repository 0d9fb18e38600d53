package status

import (
	"fmt"
	"strings"
	"testing"

	"remshell/cli/option"
)

// A line that asks about a job names it, and asks nothing else. mpijob has a word for it.
func TestStatus(t *testing.T) {
	table := option.Mpiexec(func(string) int { return 1 })
	for args, want := range map[string]string{
		"--status 17-a@ann n1":       "17-a@ann",
		"--status=last --json n1":    "last",
		"--status":                   "--status needs a value",
		"--status-signal USR1 -n1 a": "--status-signal was removed",
	} {
		line, err := table.Parse(strings.Fields(args), option.Sources{})
		got := line.Query.Job
		if err != nil {
			got, _, _ = strings.Cut(fmt.Sprint(err), "\n")
		}
		if got != want || err == nil && line.Query.Command != "status" {
			t.Errorf("%s: %q asks %q, want %q", args, line.Query.Command, got, want)
		}
	}
	line, args, err := option.Mpijob(table).Parse([]string{"status", "17-a@ann", "n1"}, option.Sources{})
	if got := strings.Join(args, " "); err != nil || got != "--status=17-a@ann n1" || line.Query.Command != "status" {
		t.Errorf("%s, %v", got, err)
	}
}
