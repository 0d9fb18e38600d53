//go:build linux

package main

import (
	"cmp"
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

// table shows medians, in milliseconds, as Markdown: those beside mpirun in a table of their
// own. Where ours runs with other options, it stands in Hydra's columns.
func table(rows []row) string {
	beside := func(r row) bool { return r.rival == mpirun }
	return tableOf(hydra, slices.DeleteFunc(slices.Clone(rows), beside)) +
		tableOf(mpirun, slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !beside(r) }))
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

// A goal is the greatest ratio that is wanted.
type goal struct {
	row, what string
	of        func(sample) time.Duration
	most      float64
}

// goals are those of the issue that asked for this comparison. "No slower" leaves
// room for what two runs of the same program differ in.
var goals = []goal{
	{"true, 64 hosts", "CPU", cpu, 1.0 / 30},
	{"true, 64 hosts", "wall", wall, 0.30},
	{"claims, 64 hosts, to none", "wall", wall, 1.05},
	{"true, local, 1 rank", "wall", wall, 1},
	{"true, local, 256 ranks", "wall", wall, 1},
	{"hello, local, 8 ranks, busy machine", "wall", wall, 1.25},
	{"output, 4 local ranks", "wall", wall, 2},
	{"output -l, 4 local ranks", "wall", wall, 0.3},
	{"output -l, 8 hosts", "wall", wall, 0.6},
	{"Open MPI hello, 8 hosts", "wall", wall, 0.5},
	{"Open MPI hello, 8 hosts", "CPU", cpu, 0.2},
	{"Open MPI hello, local, 2 ranks", "wall", wall, 0.5},
	{"Open MPI hello, local, 4 ranks", "wall", wall, 0.5},
	{"Open MPI hello, local, 16 ranks", "wall", wall, 0.5},
	{"Open MPI hello, local, 64 ranks", "wall", wall, 0.5},
	{"Open MPI hello, local, 256 ranks", "wall", wall, 1},
}

// verdicts hold the rows against the goals.
func verdicts(rows []row) string {
	var b strings.Builder
	for _, g := range goals {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == g.row })
		if i < 0 {
			continue
		}
		is := rows[i].ratio(g.of)
		word := "reached"
		if cmp.Compare(is, g.most) > 0 {
			word = "MISSED"
		}
		fmt.Fprintf(&b, "- %s, %s: %.3f of the other's; goal at most %.3f: %s\n", g.row, g.what, is, g.most, word)
	}
	return b.String()
}
