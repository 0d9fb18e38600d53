//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"remshell/text"
)

// Programs in which every rank gets a key of every other: what an MPI_Init asks of PMI (testdata/pmi1) and of PMIx
// (testdata/pmix).
const (
	exchange = "build/programs/exchange"
	modex    = "build/programs/modex"
)

// exchangeCases are an exchange by PMI-1, beside Hydra, and one by PMIx, beside mpirun, with so many ranks on each of so
// many hosts; on this machine, if that is 0.
func (b *bench) exchangeCases(hosts, pmi, pmix int) []testCase {
	where, names := "local", func(per int) string { return "localhost:" + strconv.Itoa(per) }
	var launcher []string
	if hosts > 0 {
		where, launcher = text.Count(hosts, "host"), []string{"-launcher", "ssh"}
		names = func(per int) string { return hostNames(hosts, ":"+strconv.Itoa(per)) }
	}
	words := func(option string, per int, program string) []string {
		return []string{option, names(per), "-n", strconv.Itoa(max(1, hosts) * per), program}
	}
	r := roundLimits{3, 5, 20 * time.Second}
	byPMI, byPMIx := words("-hosts", pmi, exchange), words("-host", pmix, modex)
	return []testCase{
		{name: fmt.Sprintf("exchange by PMI-1, %s, %s ranks", where, byPMI[3]), figures: wallTimeGoal(0.25), rounds: r, ranks: max(1, hosts) * pmi,
			ours: b.ownCommand(append([]string{"--no-pin"}, byPMI...)...), theirs: b.hydraCommand(append(launcher, byPMI...)...)},
		{name: fmt.Sprintf("exchange by PMIx, %s, %s ranks", where, byPMIx[3]), figures: wallTimeGoal(1), rounds: r, ranks: max(1, hosts) * pmix,
			ours: b.ownCommand(append([]string{"--no-pin"}, byPMIx...)...), theirs: b.mpirunCommand(slices.Concat(mpirunOptions, byPMIx)...)},
	}
}

// exchangeTime reads TOTAL of what rank 0 printed (testdata/pmi1/exchange.h).
func exchangeTime(said string, ranks int) (total time.Duration, err error) {
	var told int
	var span, gets, cpu, peak int64
	if _, err := fmt.Sscan(said, &told, &span, &total, &gets, &cpu, &peak); err != nil {
		return 0, fmt.Errorf("%s said %q: %w", exchange, said, err)
	}
	if told != ranks {
		return 0, fmt.Errorf("%s said that there are %d ranks, not %d", exchange, told, ranks)
	}
	return total, nil
}
