package status

import (
	"fmt"
	"strings"
	"testing"

	"remshell/cli/option"
)

// What happens at -timeout has two words, and a spelling of Open MPI.
func TestOnTimeout(t *testing.T) {
	for args, want := range map[string]string{
		"a":                                      "",
		"--on-timeout kill a":                    "kill",
		"-n 1 a : --on-timeout=stacks -n 1 b":    "stacks",
		"--timeout 60 --get-stack-traces a":      "stacks",
		"--on-timeout quit a":                    `--on-timeout: "quit" is not one of kill, stacks`,
		"--on-timeout kill --get-stack-traces a": "--get-stack-traces contradicts --on-timeout kill",
	} {
		line, err := option.Mpiexec(func(string) int { return 1 }).Parse(strings.Fields(args), option.Sources{})
		got := option.ValuesOf[Options](line).OnTimeout
		if err != nil {
			got, _, _ = strings.Cut(fmt.Sprint(err), ";")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

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
