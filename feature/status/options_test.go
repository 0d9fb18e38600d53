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
