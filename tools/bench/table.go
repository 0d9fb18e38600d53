//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A row is all samples of one case.
type row struct {
	name  string
	rival rival
	sides [3][]sample // ours, the rival's and the floor's, by round; the last may be empty
}

func wall(s sample) time.Duration { return s.wall }
func cpu(s sample) time.Duration  { return s.cpu }

// median is the middle of the values, or the mean of the two in the middle; 0 of none.
func median[T int64 | float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}

func values(samples []sample, of func(sample) time.Duration) []time.Duration {
	list := make([]time.Duration, len(samples))
	for i, s := range samples {
		list[i] = of(s)
	}
	return list
}

// ratio is the median, over the rounds, of what ours took for one of the rival's. What
// disturbs a whole round does not change it.
func (r row) ratio(of func(sample) time.Duration) float64 {
	var list []float64
	for i, ours := range r.sides[0] {
		list = append(list, float64(of(ours))/float64(max(1, of(r.sides[1][i]))))
	}
	return median(list)
}

// columns is the rival in whose columns a row stands. Where ours runs with other options, these are Hydra's.
func (r row) columns() rival {
	if r.rival == ourselves {
		return hydra
	}
	return r.rival
}

// table shows medians, in milliseconds, as Markdown: a table for each rival.
func table(rows []row) string {
	var text string
	for _, other := range []rival{hydra, copies, mpirun} {
		text += tableOf(other, slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.columns() != other }))
	}
	return text
}

func tableOf(other rival, rows []row) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| ms, medians | rounds | wall: ours | %[1]s | ratio | floor | CPU: ours | %[1]s | ratio | floor |\n", other)
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d |", r.name, len(r.sides[0]))
		for _, of := range []func(sample) time.Duration{wall, cpu} {
			fmt.Fprintf(&b, " %s | %s | %.3f | %s |", shown(r.sides[0], of), shown(r.sides[1], of), r.ratio(of), shown(r.sides[2], of))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// shown is the median with the least value behind it.
func shown(samples []sample, of func(sample) time.Duration) string {
	if len(samples) == 0 {
		return "-"
	}
	return least(values(samples, of))
}

// least is the median of some times with the least of them behind it.
func least(list []time.Duration) string {
	return fmt.Sprintf("%s (%s)", ms(median(list)), ms(slices.Min(list)))
}

func ms(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond))
}

// difference is the median, over the rounds, of how much longer ours took.
func (r row) difference(of func(sample) time.Duration) time.Duration {
	var list []time.Duration
	for i, ours := range r.sides[0] {
		list = append(list, of(ours)-of(r.sides[1][i]))
	}
	return median(list)
}

// A goal is the greatest ratio that is wanted, or the greatest difference.
type goal struct {
	row, what string
	of        func(sample) time.Duration
	most      float64
	more      time.Duration // if not 0, in the place of most
}

// judge says how a row is, what was wanted, and whether it is so.
func (g goal) judge(r row) (is, wanted string, reached bool) {
	if g.more != 0 {
		more := r.difference(g.of)
		return ms(more) + " ms more than the other's", ms(g.more) + " ms", more <= g.more
	}
	ratio := r.ratio(g.of)
	return fmt.Sprintf("%.3f of the other's", ratio), fmt.Sprintf("%.3f", g.most), ratio <= g.most
}

// goals are those of the issue that asked for this comparison. "No slower" leaves
// room for what two runs of the same program differ in.
var goals = []goal{
	{row: "true, 64 hosts", what: "CPU", of: cpu, most: 1.0 / 30},
	{row: "true, 64 hosts", what: "wall", of: wall, most: 0.30},
	{row: "claims, 64 hosts, to none", what: "wall", of: wall, most: 1.05},
	{row: "true, local, 1 rank", what: "wall", of: wall, most: 1},
	{row: "true, local, 256 ranks", what: "wall", of: wall, most: 1},
	{row: "hello, local, 8 ranks, busy machine", what: "wall", of: wall, most: 1.25},
	{row: "output, 4 local ranks", what: "wall", of: wall, most: 2},
	{row: "output -l, 4 local ranks", what: "wall", of: wall, most: 0.3},
	{row: "output -l, 8 hosts", what: "wall", of: wall, most: 0.6},
	{row: "first start, 8 hosts", what: "wall", of: wall, most: 1.3},
	{row: "first start, 8 hosts, each 100 Mbit/s", what: "wall", of: wall, most: 1.3},
	{row: "Open MPI hello, 8 hosts", what: "wall", of: wall, most: 0.5},
	{row: "Open MPI hello, 8 hosts", what: "CPU", of: cpu, most: 0.2},
	{row: "Open MPI hello, local, 2 ranks", what: "wall", of: wall, most: 0.5},
	{row: "Open MPI hello, local, 4 ranks", what: "wall", of: wall, most: 0.5},
	{row: "Open MPI hello, local, 16 ranks", what: "wall", of: wall, most: 0.5},
	{row: "Open MPI hello, local, 64 ranks", what: "wall", of: wall, most: 0.5},
	{row: "Open MPI hello, local, 256 ranks", what: "wall", of: wall, most: 1},
	// rm-integration.md 9.4
	{row: "srun, 8 hosts, to ssh", what: "wall", of: wall, most: 1.5},
	{row: "srun, 32 hosts, to ssh", what: "wall", of: wall, most: 1.5},
	{row: "one srun, 8 hosts", what: "wall", of: wall, most: 1.3},
	{row: "one srun, 32 hosts", what: "wall", of: wall, most: 1.3},
	{row: "qrsh, 8 hosts", what: "wall", of: wall, most: 1.1},
	{row: "srun, output to srun's", what: "wall", of: wall, most: 1 / 0.8},
	{row: "1 host in a job of Slurm's, to outside", what: "wall", of: wall, more: 5 * time.Millisecond},
}

// verdicts hold the rows against the goals.
func verdicts(rows []row) string {
	var b strings.Builder
	for _, g := range goals {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == g.row })
		if i < 0 {
			continue
		}
		is, wanted, reached := g.judge(rows[i])
		word := map[bool]string{true: "reached", false: "MISSED"}[reached]
		fmt.Fprintf(&b, "- %s, %s: %s; goal at most %s: %s\n", g.row, g.what, is, wanted, word)
	}
	return b.String()
}
