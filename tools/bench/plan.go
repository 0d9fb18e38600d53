//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A planCase is a cluster in a file and a request, for mpiexec --plan --cluster-state:
// nobody is reached, so what is measured is reading, deciding and writing.
type planCase struct {
	name         string
	nodes, ranks int
	busy         bool   // other jobs have two CPUs of each node
	env          string // of the request, as JSON
}

// planCases are the ways to place: the first is the cost of a start, what comes then
// shows how the cost grows with the ranks, and the others what a million cost otherwise.
var planCases = []planCase{
	{"plan, 1 rank", 1, 1, false, ""},
	{"plan, 1,000 ranks", 10, 1000, false, ""},
	{"plan, 10,000 ranks", 100, 10_000, false, ""},
	{"plan, 100,000 ranks", 1000, 100_000, false, ""},
	{"plan, 1,000,000 ranks", 10_000, 1_000_000, false, ""},
	{"plan, the same with other jobs", 10_000, 1_000_000, true, ""},
	{"plan, the same in turns, by load", 10_000, 1_000_000, false, `"PSI_LOOP_NODES_FIRST": "", "PSI_NODES_SORT": "load"`},
	{"plan, the same overbooked", 1000, 1_000_000, false, `"PSI_OVERBOOK": ""`},
	{"plan, 1,000 ranks, all nodes", 10_000, 1000, false, ""},
}

// writeState writes nodes of 128 cores with two threads each.
func (c planCase) writeState(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriter(file)
	fmt.Fprintf(w, `{"version": 1, "env": {%s}, "nodes": [`, c.env)
	for i := range c.nodes {
		if i > 0 {
			w.WriteString(",\n")
		}
		fmt.Fprintf(w, `{"id": %d, "name": "node%05d", "cpus": 128, "threads_per_core": 2, "numa_nodes": 8, "load": [%d.25, 0.5, 0.5]`, i, i, i%7)
		if c.busy {
			fmt.Fprintf(w, `, "procs": 2, "busy_cpus": [%d, 17]`, i%128)
		}
		w.WriteString("}")
	}
	w.WriteString("]}\n")
	return w.Flush()
}

// rounds is how often the case is run and counted: what takes milliseconds more often.
func (c planCase) rounds() int {
	if c.ranks*c.nodes <= 100_000 {
		return 40
	}
	return 5
}

// plans measures the cases and returns a row for each.
func (b *bench) plans(ctx context.Context, cases []planCase) ([]planRow, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var rows []planRow
	for _, c := range cases {
		fmt.Fprintf(os.Stderr, "bench: %s\n", c.name)
		name := filepath.Join(dir, "state.json")
		if err := c.writeState(name); err != nil {
			return nil, err
		}
		samples, err := b.repeated(ctx, c.rounds(), run{words: []string{b.ours, "--plan", "--cluster-state", name, "-n", strconv.Itoa(c.ranks)}})
		if err != nil {
			return nil, err
		}
		rows = append(rows, planRow{c, samples})
	}
	return rows, nil
}

// A planRow is what a case took.
type planRow struct {
	planCase
	samples []sample
}

func (r planRow) wall() time.Duration { return median(values(r.samples, wall)) }
func (r planRow) cpu() time.Duration  { return median(values(r.samples, cpu)) }

// peak is the most memory that any run had.
func (r planRow) peak() (most int64) {
	for _, s := range r.samples {
		most = max(most, s.peak)
	}
	return most
}

// perRank is the CPU time that each rank adds to a start. Unlike the wall time it is the
// same on a busy machine.
func (r planRow) perRank(start time.Duration) time.Duration {
	return (r.cpu() - start) / time.Duration(r.ranks)
}

// planTable shows the rows as Markdown; the first is the start.
func planTable(rows []planRow) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| | nodes | ranks | wall, ms | CPU, ms | memory, MiB | CPU of each rank, µs |\n|---|--:|--:|--:|--:|--:|--:|\n")
	start := rows[0].cpu()
	for _, r := range rows {
		each := "-"
		if r.ranks > 1 && rows[0].ranks == 1 {
			each = fmt.Sprintf("%.2f", float64(r.perRank(start))/float64(time.Microsecond))
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %d | %s |\n", r.name, r.nodes, r.ranks,
			shown(r.samples, wall), shown(r.samples, cpu), r.peak()>>20, each)
	}
	return b.String() + planVerdict(rows)
}

// The goals: a million ranks on 10,000 nodes, and as much for each of them as for one
// of a thousand.
const (
	planTime   = 2 * time.Second
	planMemory = 2 << 30
	planGrowth = 1.5
)

func planVerdict(rows []planRow) string {
	row := func(name string) (planRow, bool) {
		for _, r := range rows {
			if r.name == name {
				return r, true
			}
		}
		return planRow{}, false
	}
	million, ok := row("plan, 1,000,000 ranks")
	if !ok {
		return ""
	}
	word := map[bool]string{true: "reached", false: "MISSED"}
	text := fmt.Sprintf("\n- a million ranks: %s ms; goal below %s ms: %s\n", ms(million.wall()), ms(planTime), word[million.wall() < planTime])
	text += fmt.Sprintf("- a million ranks: %d MiB; goal below %d MiB: %s\n", million.peak()>>20, planMemory>>20, word[million.peak() < planMemory])
	thousand, ok := row("plan, 1,000 ranks")
	start, okStart := row("plan, 1 rank")
	if !ok || !okStart {
		return text
	}
	growth := float64(million.perRank(start.cpu())) / float64(max(1, thousand.perRank(start.cpu())))
	return text + fmt.Sprintf("- each of a million to each of a thousand: %.2f; goal at most %.1f: %s\n", growth, planGrowth, word[growth <= planGrowth])
}
