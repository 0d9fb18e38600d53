//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

const tableHead = "| work | rounds | ours | peer | floor | ratio | goal | |\n|---|--:|--:|--:|--:|--:|--:|---|\n"

// median returns the median of values. For an even number of values, it returns the mean of the two middle values.
// If there are no values, it returns 0.
func median(values []float64) float64 {
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

// tableLines returns the rows of a case in the Markdown table, one row for each figure. sides contains the samples of
// mpiexec, of the peer (the program for comparison) and of the lower bound.
func tableLines(c testCase, sides [3][]sample) string {
	var b strings.Builder
	for _, f := range c.figures {
		var values [3][]float64
		for i, side := range sides {
			for _, s := range side {
				values[i] = append(values[i], f.of(s))
			}
		}
		value, ratio := median(values[0]), ""
		if c.theirs != nil {
			value = median(ratios(values[0], values[1]))
			ratio = fmt.Sprintf("%.3f", value)
		}
		fmt.Fprintf(&b, "| %s, %s | %d | %s | %s | %s | %s | %s |\n", c.name, f.unit, len(values[0]),
			medianText(values[0]), medianText(values[1]), medianText(values[2]), ratio, f.check(value))
	}
	return b.String()
}

// ratios returns, for each round, mpiexec's value divided by the peer's value. Load that slows down a whole round
// hardly changes the ratio of that round.
func ratios(mpiexec, peer []float64) []float64 {
	list := make([]float64, len(mpiexec))
	for i := range mpiexec {
		list[i] = mpiexec[i] / max(peer[i], 1e-6)
	}
	return list
}

// check returns the last two cells of a row of the table: the goal, and whether value meets the goal.
func (f figure) check(value float64) string {
	switch {
	case f.goal == 0:
		return " |"
	case value <= f.goal:
		return fmt.Sprintf("%.4g | reached", f.goal)
	}
	return fmt.Sprintf("%.4g | MISSED", f.goal)
}

// medianText returns the median as a string, with the smallest value in parentheses. It returns "" if there are no
// values.
func medianText(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return formatValue(median(values)) + " (" + formatValue(slices.Min(values)) + ")"
}

// formatValue formats a value with one decimal if the value is below 100, and without decimals otherwise.
func formatValue(value float64) string {
	if value < 100 {
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}
