package stacks_test

import (
	"fmt"
	"strings"
	"testing"

	"remshell/cli/option"
	_ "remshell/feature" // --stacks is for the command of another one
	"remshell/feature/stacks"
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
		got := option.ValuesOf[stacks.Options](line).OnTimeout
		if err != nil {
			got, _, _ = strings.Cut(fmt.Sprint(err), ";")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// Stacks are a part of the status. They may be those of some ranks.
func TestStacksOption(t *testing.T) {
	for args, want := range map[string]string{
		"status 17-a --stacks n1":           "all",
		"status --stacks=0-3,7 17-a --json": "0-3,7",
		"status 17-a":                       "",
		"ps --stacks":                       "ps: this command does not have the option --stacks",
	} {
		line, _, err := option.Mpijob(option.Mpiexec(func(string) int { return 1 })).Parse(strings.Fields(args), option.Sources{})
		got := option.ValuesOf[stacks.Options](line).Stacks
		if err != nil {
			got, _, _ = strings.Cut(fmt.Sprint(err), "\n")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
