/*
Package text formats durations, sizes, tables, and numbers with nouns. It also wraps lines, groups equal
items, and compares words.

The package knows nothing about hosts, ranks or jobs. It does not escape control characters, which
format.EscapeSentence does.
*/
package text

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// Count returns a number with a noun in the right form: "1 node", "2 nodes", "2 processes".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Product returns all strings that consist of an element of heads and an element of tails. Strings with the same head
// follow each other.
func Product(heads, tails []string) []string {
	all := make([]string, 0, len(heads)*len(tails))
	for _, head := range heads {
		for _, tail := range tails {
			all = append(all, head+tail)
		}
	}
	return all
}

// FormatDuration formats a duration in whole units: "55 s", "10 min", "1 h 5 min". A duration below 1 s is
// formatted as "1 s".
func FormatDuration(d time.Duration) string {
	seconds := int(max(d.Round(time.Second), time.Second) / time.Second)
	var words []string
	for _, unit := range []struct {
		size int
		name string
	}{{3600, " h"}, {60, " min"}, {1, " s"}} {
		if n := seconds / unit.size; n > 0 {
			words = append(words, strconv.Itoa(n)+unit.name)
		}
		seconds %= unit.size
	}
	return strings.Join(words, " ")
}

// EditDistance returns the minimum number of edits that turn a into b. An edit inserts, deletes or replaces a byte,
// or swaps two neighboring bytes (the optimal string alignment distance).
func EditDistance(a, b string) int {
	before, above := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}

// A Group lists the names of all items that have the same value Common.
type Group[K comparable] struct {
	Common K
	Names  []string
}

// Groups makes one Group for each distinct value. keyOf returns the value and the name of an item. The groups are in
// the order of their first items. Items with an empty name are left out.
func Groups[T any, K comparable](items []T, keyOf func(T) (common K, name string)) []Group[K] {
	var groups []Group[K]
	at := make(map[K]int)
	for _, item := range items {
		common, name := keyOf(item)
		if name == "" {
			continue
		}
		i, known := at[common]
		if !known {
			i = len(groups)
			at[common] = i
			groups = append(groups, Group[K]{Common: common})
		}
		groups[i].Names = append(groups[i].Names, name)
	}
	return groups
}

// Columns returns rows as a table, with indent before each line. Columns are as wide as their widest cell, in
// characters, and have two blanks between them. A column that is empty in all rows is left out. Cells must be valid
// UTF-8 without control characters.
func Columns(indent string, rows [][]string) string {
	most := 0
	for _, row := range rows {
		most = max(most, len(row))
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for _, row := range rows {
		const end = "\v" // of a cell whose column may be left out
		w.Write([]byte(strings.Join(row, end) + strings.Repeat(end, most-len(row)+1) + "\n"))
	}
	w.Flush()
	return indentLines(indent, b.String())
}

// indentLines puts indent before each line, and removes blanks at the ends of lines.
func indentLines(indent, lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
	}
	return b.String()
}

// leastWidth is the minimum width at which lines are wrapped. A smaller width is regarded as unknown.
const leastWidth = 20

// WrapLine wraps a line at blanks into lines of at most width characters. It does not break a word that is longer than
// width. Lines after the first are indented by indent blanks. If width is below leastWidth, WrapLine does not wrap the
// line.
func WrapLine(line string, width, indent int) (lines []string) {
	if width < leastWidth {
		return []string{line}
	}
	indent = min(indent, width/2)
	for utf8.RuneCountInString(line) > width {
		at := wrapPoint(line, width)
		if at < 0 {
			break
		}
		lines = append(lines, strings.TrimRight(line[:at], " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	return append(lines, line)
}

// wrapPoint returns the index of the blank at which to break a line. It is the last blank with at most width characters
// before it. If there is none, it is the first blank. Blanks before the first word and after the last word are ignored.
// If no blank is left, wrapPoint returns -1.
func wrapPoint(line string, width int) int {
	at, letters, begun := -1, 0, false
	for i, r := range strings.TrimRight(line, " ") {
		switch {
		case r != ' ':
			begun = true
		case begun && (letters <= width || at < 0):
			at = i
		}
		letters++
	}
	return at
}

// FormatBytes formats a size in the largest unit that is not larger than the size, rounded down: "3 GiB", "1 byte".
func FormatBytes(bytes int64) string {
	for _, unit := range []struct {
		name  string
		shift int
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if bytes >= 1<<unit.shift {
			return fmt.Sprintf("%d %s", bytes>>unit.shift, unit.name)
		}
	}
	return Count(int(bytes), "byte")
}
