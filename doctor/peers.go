package doctor

import (
	"fmt"
	"maps"
	"slices"

	"remshell/job"
)

// compareHosts returns the findings that result from comparing hosts with each other.
func compareHosts(hosts []job.HostDiagnosis) []Finding {
	return slices.Concat(unreachedPeers(hosts), compareMTUs(hosts))
}

// unreachedPeers returns findings about hosts that cannot connect to other hosts. Each finding is about one host,
// and lists all hosts to which it cannot connect for the same reason.
func unreachedPeers(hosts []job.HostDiagnosis) (found []Finding) {
	for _, c := range hosts {
		missed := make(map[job.PeerProbe][]string) // hosts by stage and reason
		for _, k := range c.PeerProbes {
			if k.Stage != "" {
				why := job.PeerProbe{Stage: k.Stage, Err: k.Err}
				missed[why] = append(missed[why], k.Peer)
			}
		}
		for _, why := range slices.SortedFunc(maps.Keys(missed), compareProbes) {
			found = append(found, unreachedFinding(c, why, missed[why]))
		}
	}
	return found
}

func compareProbes(a, b job.PeerProbe) int {
	switch {
	case a.Stage+a.Err < b.Stage+b.Err:
		return -1
	case a.Stage+a.Err > b.Stage+b.Err:
		return 1
	}
	return 0
}

// unreachedFinding returns a finding which says that host c cannot connect to the given hosts. probe contains the
// reason.
func unreachedFinding(c job.HostDiagnosis, probe job.PeerProbe, hosts []string) Finding {
	if probe.Stage == "large" {
		return newFinding(c, Failure, "mtu", fmt.Sprintf("small packets to %s arrive, but packets of full size do not: %s", foldHosts(hosts), probe.Err),
			fmt.Sprintf("the MTU of %s (%d) is too large for the network between these hosts; to lower it: ip link set %s mtu 1500",
				c.Diagnosis.Interface, c.Diagnosis.MTU, c.Diagnosis.Interface))
	}
	return newFinding(c, Failure, "no-route", fmt.Sprintf("cannot reach %s on a high port: %s", foldHosts(hosts), probe.Err),
		"ranks connect to high ports: in the firewalls of these hosts, open ports 1024 to 65535 (nft list ruleset), and check their routes (ip route)")
}

// compareMTUs compares the MTUs of the network interfaces over which hosts communicate. It reports hosts whose MTU
// differs from the most frequent MTU. If several MTUs are equally frequent, it compares with the largest of these.
func compareMTUs(hosts []job.HostDiagnosis) (found []Finding) {
	count := make(map[int]int)
	for _, c := range hosts {
		if hasComparableMTU(c) {
			count[c.Diagnosis.MTU]++
		}
	}
	usual := 0
	for _, mtu := range slices.Sorted(maps.Keys(count)) {
		if count[mtu] >= count[usual] {
			usual = mtu
		}
	}
	for _, c := range hosts {
		if hasComparableMTU(c) && c.Diagnosis.MTU != usual {
			found = append(found, newFinding(c, Warning, "mtu", fmt.Sprintf("the MTU of %s is %d, but on most hosts it is %d", c.Diagnosis.Interface, c.Diagnosis.MTU, usual),
				fmt.Sprintf("set the same MTU on all hosts: ip link set %s mtu %d", c.Diagnosis.Interface, usual)))
		}
	}
	return found
}

// hasComparableMTU reports whether the host's network interface should have the same MTU as the interfaces
// of other hosts.
func hasComparableMTU(c job.HostDiagnosis) bool {
	return c.Diagnosis.MTU > 0 && !isLoopback(c.Diagnosis.Address)
}
