/*
Package text puts into words what is counted and compared: numbers with their nouns, times, reasons
that several things share, words that resemble others, tables.

It knows nothing of hosts, ranks or jobs, and does not clean what it is given (show.Clean does).
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

// Count writes a number with its noun: "1 node", "2 nodes", "2 processes".
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

// Product joins each head with each tail, the heads varying slowest.
func Product(heads, tails []string) []string {
	all := make([]string, 0, len(heads)*len(tails))
	for _, head := range heads {
		for _, tail := range tails {
			all = append(all, head+tail)
		}
	}
	return all
}

// FormatDuration writes a time in whole units, from 1 s on: "55 s", "10 min", "1 h 5 min".
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

// EditDistance counts the letters to insert, delete, replace or swap with their
// neighbour to make b of a (the optimal string alignment distance, in bytes).
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

// A Group is what several items have in common, and what each of them is called.
type Group[K comparable] struct {
	Common K
	Names  []string
}

// Groups tells equal things once: it gathers the names of items by what they have in common, in
// the order in which that came. An item without a name is left out.
func Groups[T any, K comparable](items []T, of func(T) (common K, name string)) []Group[K] {
	var groups []Group[K]
	at := make(map[K]int)
	for _, item := range items {
		common, name := of(item)
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

// Columns writes rows under each other, behind an indent. Columns are two blanks apart, and as
// wide as their widest cell, in characters; one that is empty in all rows is left out. Cells are
// clean: valid UTF-8 without control characters.
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

// indentLines sets an indent before each line, and leaves out the blanks at its end.
func indentLines(indent, lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
	}
	return b.String()
}

// leastWidth is the width below which a terminal is not taken for one that folded lines are read on.
const leastWidth = 20

// WrapLine breaks a line at blanks into lines that are no longer than width, as far as words are not. What goes on is indented. Without
// a width the line is left as it is.
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

// wrapPoint is the index of the blank at which a line is folded: the last one by which what is before it has the width, else the
// first one; -1: there is none, but for those before the first word and behind the last.
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

// FormatBytes writes a size in the largest unit of which there is one, without a rest: "3 GiB", "1 byte".
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
