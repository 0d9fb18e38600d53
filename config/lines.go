package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// lines knows where things stand in a file, for messages: the TOML reader tells it of
// syntax alone. Keys are in lower case. What is written in an unusual way (a table in
// one line) has no line here.
type lines struct {
	global map[string]int
	nodes  []map[string]int // "" is the header
}

// scan finds the keys of a file.
func scan(text string) lines {
	l := lines{global: make(map[string]int)}
	here := l.global
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if header, _, ok := strings.Cut(strings.TrimPrefix(line, "[["), "]]"); ok && strings.HasPrefix(line, "[[") {
			here = make(map[string]int)
			if strings.EqualFold(strings.TrimSpace(header), "node") {
				here[""] = number
				l.nodes = append(l.nodes, here)
			}
			continue
		}
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			key = strings.ToLower(strings.Trim(key, ` "'`))
			here[key] = cmp.Or(here[key], number)
		}
	}
	return l
}

// of is the line of a key in the i-th node, else that of the node; 0: unknown.
func (l lines) of(i int, key string) int {
	if i >= len(l.nodes) {
		return 0
	}
	return cmp.Or(l.nodes[i][strings.ToLower(key)], l.nodes[i][""])
}

// A badMember is neither a name nor a number.
type badMember struct{ item any }

func (e *badMember) Error() string {
	return fmt.Sprintf("%v is neither a name nor a number", e.item)
}

// nearest is the known word that differs least from a word, if it is near at all.
func nearest(word string, known []string) string {
	best := slices.MinFunc(known, func(a, b string) int {
		return cmp.Compare(distance(word, a), distance(word, b))
	})
	if distance(word, best) > max(1, len(word)/3) {
		return ""
	}
	return best
}

// distance counts the letters to change, insert or delete, ignoring case
// (Levenshtein).
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
