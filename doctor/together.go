package doctor

import (
	"fmt"
	"maps"
	"slices"

	"remshell/job"
)

// together judges what only shows between hosts.
func together(checkups []job.Checkup) []Finding {
	return slices.Concat(unreached(checkups), sizes(checkups))
}

// unreached tells who does not reach whom. All that one host does not reach for one reason is
// one finding.
func unreached(checkups []job.Checkup) (found []Finding) {
	for _, c := range checkups {
		missed := make(map[job.PeerProbe][]string) // hosts by stage and reason
		for _, k := range c.PeerProbes {
			if k.Stage != "" {
				why := job.PeerProbe{Stage: k.Stage, Err: k.Err}
				missed[why] = append(missed[why], k.At)
			}
		}
		for _, why := range slices.SortedFunc(maps.Keys(missed), compare) {
			found = append(found, missing(c, why, missed[why]))
		}
	}
	return found
}

func compare(a, b job.PeerProbe) int {
	switch {
	case a.Stage+a.Err < b.Stage+b.Err:
		return -1
	case a.Stage+a.Err > b.Stage+b.Err:
		return 1
	}
	return 0
}

// missing is the finding of a host that does not reach others.
func missing(c job.Checkup, why job.PeerProbe, others []string) Finding {
	if why.Stage == "large" {
		return of(c, Failure, "mtu", fmt.Sprintf("small packets to %s arrive, full ones do not: %s", hosts(others), why.Err),
			fmt.Sprintf("the MTU of %s (%d) is more than the network between them carries: ip link set %s mtu 1500",
				c.Exam.Interface, c.Exam.MTU, c.Exam.Interface))
	}
	return of(c, Failure, "no-route", fmt.Sprintf("cannot reach %s on a high port: %s", hosts(others), why.Err),
		"ranks connect to one another so: open ports 1024 to 65535 between the hosts in their firewalls (nft list ruleset), and look at ip route")
}

// sizes compares the MTU of interfaces through which hosts reach each other. The rule is
// what most have; of two, the larger one.
func sizes(checkups []job.Checkup) (found []Finding) {
	count := make(map[int]int)
	for _, c := range checkups {
		if counts(c) {
			count[c.Exam.MTU]++
		}
	}
	usual := 0
	for _, mtu := range slices.Sorted(maps.Keys(count)) {
		if count[mtu] >= count[usual] {
			usual = mtu
		}
	}
	for _, c := range checkups {
		if counts(c) && c.Exam.MTU != usual {
			found = append(found, of(c, Warning, "mtu", fmt.Sprintf("the MTU of %s is %d, that of most hosts %d", c.Exam.Interface, c.Exam.MTU, usual),
				fmt.Sprintf("make them equal: ip link set %s mtu %d", c.Exam.Interface, usual)))
		}
	}
	return found
}

// counts reports whether an interface has an MTU that others must have too.
func counts(c job.Checkup) bool { return c.Exam.MTU > 0 && !loopback(c.Exam.Address) }
