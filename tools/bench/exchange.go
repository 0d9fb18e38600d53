//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"remshell/text"
)

// In these programs each rank gets a key from every other rank, as in MPI_Init. exchange (testdata/pmi1) uses PMI-1,
// and modex (testdata/pmix) uses PMIx.
const (
	exchange = "build/programs/exchange"
	modex    = "build/programs/modex"
)

// exchangeCases returns two cases: an exchange of keys by PMI-1, compared with Hydra, and an exchange of keys by
// PMIx, compared with mpirun. pmi and pmix are the numbers of ranks per host. If hosts is 0, the ranks run on this
// machine.
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
		{name: fmt.Sprintf("exchange by PMI-1, %s, %s ranks", where, byPMI[3]), figures: wallTimeGoal(0.25), rounds: r, prints: exchangeTime(max(1, hosts) * pmi),
			ours: b.ownCommand(append([]string{"--no-pin"}, byPMI...)...), theirs: b.hydraCommand(append(launcher, byPMI...)...)},
		{name: fmt.Sprintf("exchange by PMIx, %s, %s ranks", where, byPMIx[3]), figures: wallTimeGoal(1), rounds: r, prints: exchangeTime(max(1, hosts) * pmix),
			ours: b.ownCommand(append([]string{"--no-pin"}, byPMIx...)...), theirs: b.mpirunCommand(slices.Concat(mpirunOptions, byPMIx)...)},
	}
}

// exchangeTime returns a function that returns the total time of the exchange, from the line that rank 0 has
// printed (TOTAL in testdata/pmi1/exchange.h). The function returns an error if the line contains another
// number of ranks.
func exchangeTime(ranks int) func(sample) (time.Duration, error) {
	return func(s sample) (total time.Duration, err error) {
		var size int
		var span, gets, cpu, peak int64
		if _, err := fmt.Sscan(s.output, &size, &span, &total, &gets, &cpu, &peak); err != nil {
			return 0, fmt.Errorf("%s printed %q: %w", exchange, s.output, err)
		}
		if size != ranks {
			return 0, fmt.Errorf("%s printed that there are %d ranks, not %d", exchange, size, ranks)
		}
		return total, nil
	}
}
