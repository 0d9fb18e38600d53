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

// fakeHostsArg is the argument that makes this program run a complete launch on simulated hosts. Its own
// argument is the number of hosts. Each host has 64 ranks.
const fakeHostsArg = "--fake-hosts"

// launchFakeHosts runs a launch on words[0] simulated hosts. It returns the exit code.
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
