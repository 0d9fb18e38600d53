//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"remshell/test/crowd"
)

// fakeHostsArg makes this program a whole launch with so many hosts, all of which it plays: from the first connection to
// the last rank's end, with 64 ranks on each.
const fakeHostsArg = "--crowd"

// launchFakeHosts is such a launch.
func launchFakeHosts(words []string) int {
	hosts, err := strconv.Atoi(words[0])
	if err == nil {
		err = new(crowd.FakeHosts).Launch(context.Background(), hosts, crowd.CoresPerHost, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		return 1
	}
	return 0
}
