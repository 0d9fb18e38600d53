//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

const tableHead = "| work | rounds | ours | peer | floor | ratio | goal | |\n|---|--:|--:|--:|--:|--:|--:|---|\n"

// median returns the median of values. For an even number of values it is the mean of the middle two. For
// no values it is 0.
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

// tableLines returns the rows of a case in the Markdown table, one for each figure. sides has the samples
// of mpiexec, the peer and the lower bound.
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

// ratios returns, for each round, mpiexec's value divided by the peer's. Load that slows down a complete
// round does not change them.
func ratios(mpiexec, peer []float64) []float64 {
	list := make([]float64, len(mpiexec))
	for i := range mpiexec {
		list[i] = mpiexec[i] / max(peer[i], 1e-6)
	}
	return list
}

// check returns the last two cells of a row: the goal, and whether value reaches it.
func (f figure) check(value float64) string {
	switch {
	case f.goal == 0:
		return " |"
	case value <= f.goal:
		return fmt.Sprintf("%.4g | reached", f.goal)
	}
	return fmt.Sprintf("%.4g | MISSED", f.goal)
}

// medianText returns the median as text, with the smallest value in parentheses. Without values it
// returns "".
func medianText(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return formatValue(median(values)) + " (" + formatValue(slices.Min(values)) + ")"
}

// formatValue formats a value. A value below 100 has one decimal, and any other has none.
func formatValue(value float64) string {
	if value < 100 {
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}
