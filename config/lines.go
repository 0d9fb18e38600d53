package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/text"
)

// keyLines knows where things stand in a file, for messages: the TOML reader tells it of
// syntax alone. Keys are in lower case. What is written in an unusual way (a table in
// one line) has no line here.
type keyLines struct {
	global map[string]int
	nodes  []map[string]int // "" is the header
}

// scan finds the keys of a file.
func scan(text string) keyLines {
	l := keyLines{global: make(map[string]int)}
	here := l.global
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if table, is := header(line); is {
			here = make(map[string]int)
			if table == "node" {
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

// header is the name of the table that a line begins, "[name]" or "[[name]]".
func header(line string) (table string, is bool) {
	inside, _, closed := strings.Cut(strings.TrimLeft(line, "["), "]")
	return strings.ToLower(strings.TrimSpace(inside)), closed && strings.HasPrefix(line, "[")
}

// of is the line of a key in the i-th node, else that of the node; 0: unknown.
func (l keyLines) of(i int, key string) int {
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

// nearest is the known word that differs least from a word, if it is near at all. Case
// does not count.
func nearest(word string, known []string) string {
	word = strings.ToLower(word)
	far := func(other string) int { return text.Distance(word, strings.ToLower(other)) }
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	if far(best) > max(1, len(word)/3) {
		return ""
	}
	return best
}
