//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

const tableHead = "| work | rounds | ours | peer | floor | ratio | goal | |\n|---|--:|--:|--:|--:|--:|--:|---|\n"

// median is the middle of the values, or the mean of the two in the middle; 0 of none.
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

// tableLines are the rows of a case: one for each figure.
func tableLines(c testCase, sides [3][]sample) string {
	var b strings.Builder
	for _, f := range c.figures {
		var values [3][]float64
		for i, side := range sides {
			for _, s := range side {
				values[i] = append(values[i], f.of(s))
			}
		}
		is, ratio := median(values[0]), ""
		if c.theirs != nil {
			is = median(ratios(values[0], values[1]))
			ratio = fmt.Sprintf("%.3f", is)
		}
		fmt.Fprintf(&b, "| %s, %s | %d | %s | %s | %s | %s | %s |\n", c.name, f.unit, len(values[0]),
			medianText(values[0]), medianText(values[1]), medianText(values[2]), ratio, f.check(is))
	}
	return b.String()
}

// ratios are, round by round, ours for one of the peer's. What disturbs a whole round does not change them.
func ratios(ours, theirs []float64) []float64 {
	list := make([]float64, len(ours))
	for i := range ours {
		list[i] = ours[i] / max(theirs[i], 1e-6)
	}
	return list
}

// check says what was wanted, and whether it is so.
func (f figure) check(is float64) string {
	switch {
	case f.goal == 0:
		return " |"
	case is <= f.goal:
		return fmt.Sprintf("%.4g | reached", f.goal)
	}
	return fmt.Sprintf("%.4g | MISSED", f.goal)
}

// medianText is the median with the least value behind it.
func medianText(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return formatValue(median(values)) + " (" + formatValue(slices.Min(values)) + ")"
}

func formatValue(value float64) string {
	if value < 100 {
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}
