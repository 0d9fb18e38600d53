//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	_ "remshell/feature" // as the program has them
	"remshell/test/crowd"
)

// fakeHostsArg is the argument that makes this program run a complete launch on simulated hosts. The number of
// hosts follows as the next argument. Each host has 64 ranks.
const fakeHostsArg = "--fake-hosts"

// launchFakeHosts runs a launch on simulated hosts. words[0] is the number of hosts. It returns the exit code.
func launchFakeHosts(words []string) int {
	hosts, err := strconv.Atoi(words[0])
	if err == nil {
		err = new(crowd.FakeHosts).Launch(context.Background(), hosts, crowd.CoresPerHost, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake hosts:", err)
		return 1
	}
	return 0
}
