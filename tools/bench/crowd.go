//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"remshell/test/crowd"
)

// crowdArg makes this program a whole launch with so many hosts, all of which it plays.
const crowdArg = "--crowd"

// A crowdCase is a launch from the first connection to the last rank's end, with 64 ranks on
// each host. The other halves of the connections are in the same process.
type crowdCase struct {
	hosts  int
	rounds int
}

var crowdCases = []crowdCase{{100, 20}, {1000, 7}, {10_000, 5}}

func (c crowdCase) name() string { return fmt.Sprintf("launch, %d hosts in one process", c.hosts) }

// launchCrowd is one such launch.
func launchCrowd(words []string) int {
	hosts, err := strconv.Atoi(words[0])
	if err == nil {
		err = new(crowd.Crowd).Launch(context.Background(), hosts, crowd.Cores, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		return 1
	}
	return 0
}

// A crowdRow is what a case took.
type crowdRow struct {
	crowdCase
	samples []sample
}

// crowds measures the cases whose names contain only.
func (b *bench) crowds(ctx context.Context, only string) ([]crowdRow, error) {
	var rows []crowdRow
	for _, c := range crowdCases {
		if !strings.Contains(c.name(), only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name())
		samples, err := b.repeated(ctx, c.rounds, run{words: []string{b.self, crowdArg, strconv.Itoa(c.hosts)}})
		if err != nil {
			return nil, err
		}
		rows = append(rows, crowdRow{c, samples})
	}
	return rows, nil
}

func (r crowdRow) wall() time.Duration { return median(values(r.samples, wall)) }

// perHost is the CPU time of one host.
func (r crowdRow) perHost() time.Duration {
	return median(values(r.samples, cpu)) / time.Duration(r.hosts)
}

// peak is the most memory that any run had.
func (r crowdRow) peak() (most int64) {
	for _, s := range r.samples {
		most = max(most, s.peak)
	}
	return most
}

// The goals: 10,000 hosts, with the helpers' halves, and as much for each of them as for each
// of a hundred.
const (
	crowdTime   = 5 * time.Second
	crowdMemory = 1 << 30
	crowdGrowth = 1.5
)

// crowdTable shows the rows as Markdown.
func crowdTable(rows []crowdRow) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| | ranks | wall, ms | CPU, ms | memory, MiB | CPU of each host, µs | memory of each, KiB |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %d | %.0f | %d |\n", r.name(), r.hosts*crowd.Cores, shown(r.samples, wall), shown(r.samples, cpu),
			r.peak()>>20, float64(r.perHost())/float64(time.Microsecond), r.peak()>>10/int64(r.hosts))
	}
	first, last := rows[0], rows[len(rows)-1]
	if last.hosts < 10_000 || first.hosts > 100 {
		return b.String()
	}
	word := map[bool]string{true: "reached", false: "MISSED"}
	growth := float64(last.perHost()) / float64(max(1, first.perHost()))
	fmt.Fprintf(&b, "\n- %d hosts: %s ms; goal at most %s ms: %s\n", last.hosts, ms(last.wall()), ms(crowdTime), word[last.wall() <= crowdTime])
	fmt.Fprintf(&b, "- %d hosts: %d MiB; goal at most %d MiB: %s\n", last.hosts, last.peak()>>20, crowdMemory>>20, word[last.peak() <= crowdMemory])
	fmt.Fprintf(&b, "- CPU of each of them to each of %d: %.2f; goal at most %.1f: %s\n", first.hosts, growth, crowdGrowth, word[growth <= crowdGrowth])
	return b.String()
}
