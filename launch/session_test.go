//go:build linux

package launch_test

import (
	"fmt"
	"strings"
	"testing"

	"remshell/launch/launchtest"
)

// Values that ranks of many nodes put arrive unchanged, though they are compressed on the way.
func TestALargeFenceOfManyNodes(t *testing.T) {
	const many = 16
	var nodes []string
	var script strings.Builder
	value := func(rank int) string { return strings.Repeat(fmt.Sprintf("card-of-rank-%d$", rank), 300) }
	for rank := range many {
		nodes = append(nodes, fmt.Sprint("n", rank))
		fmt.Fprintf(&script, "%d: put k%d %s; ", rank, rank, value(rank))
	}
	script.WriteString("barrier; 0: get k15; 15: get k0")
	launchtest.NewPMIRun(many, script.String(), nil, nodes...).ExpectLines(t, "get k15: "+value(15), "get k0: "+value(0))
}

// Ranks may connect to their server by a port (-pmi-port), and send everything,
// including their last messages.
func TestPort(t *testing.T) {
	r := launchtest.NewPMIRun(2, "0: put k v; barrier; 1: get k; env PMI_FD", nil, "a", "b")
	r.Req.PMIPort = true
	r.ExpectLines(t, "get k: v", "env PMI_FD: unset", "env PMI_FD: unset")

	r = launchtest.NewPMIRun(2, "1: abort 7 enough; hang", nil, "a", "b")
	r.Req.PMIPort = true
	if result, err := r.Do(t); err != nil || result.Code != 7 || !strings.Contains(r.Err.String(), "code 7: enough") {
		t.Errorf("abort: code %d, %v: %s", result.Code, err, r.Err.String())
	}
	r = launchtest.NewPMIRun(2, "1: exit 3; hang", nil, "a", "b")
	r.Req.PMIPort = true
	if result, err := r.Do(t); err != nil || result.Code != 3 {
		t.Errorf("exit: code %d, %v: %s", result.Code, err, r.Err.String())
	}
}

// Old clients ask which ranks are on which node (pmi-wire.md 2.9).
func TestRanksToHosts(t *testing.T) {
	r := launchtest.NewPMIRun(4, "hosts", nil, "a:3", "b")
	r.Req.Apps[0].PerNode = 3
	const all = "hosts: put_ranks2hosts 20 2 | 1 a 0,1,2, 1 b 3, "
	r.ExpectLines(t, all, all, all, all)
	launchtest.NewPMIRun(2, "1: hosts", nil, "a:2").ExpectLines(t, "hosts: put_ranks2hosts 11 1 | 1 a 0,1, ")
}
