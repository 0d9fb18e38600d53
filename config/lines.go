package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"remshell/text"
)

// keyLines knows where things stand in a file, for messages: what decodes it tells of syntax
// alone. Keys are in lower case. What is written in an unusual way (a table in one line) has no
// line here.
type keyLines struct {
	global map[string]int
	nodes  []map[string]int          // "" is the header
	tables map[string]map[string]int // of the others, by name; of one of several: "class[0]"
	count  map[string]int            // how many there are of those
}

// scanKeyLines finds the keys of a file, up to the first fault of syntax.
func scanKeyLines(file string) keyLines {
	l := keyLines{global: make(map[string]int), tables: make(map[string]map[string]int), count: make(map[string]int)}
	here, at := l.global, lineCount{text: file}
	var p unstable.Parser
	p.Reset([]byte(file))
	for p.NextExpression() {
		e := p.Expression()
		key, offset := keyOf(e)
		line := at.lineAt(offset)
		switch {
		case e.Kind == unstable.KeyValue:
			here[key] = cmp.Or(here[key], line)
		case key == "node":
			here = map[string]int{"": line}
			l.nodes = append(l.nodes, here)
		default: // another table
			here = map[string]int{"": line}
			l.tables[l.tableName(key, e.Kind == unstable.ArrayTable)] = here
		}
	}
	return l
}

// tableName is that of a table that begins here: of one of several, and what is below it, with its number.
func (l *keyLines) tableName(key string, several bool) string {
	first, below, _ := strings.Cut(key, ".")
	if several && below == "" {
		l.count[key]++
	}
	if n := l.count[first]; n > 0 {
		return strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", first, n-1, below), ".")
	}
	return key
}

// keyOf is the key of an expression, or the name of the table that it begins, and where in the
// file it begins.
func keyOf(e *unstable.Node) (key string, offset int) {
	var parts []string
	for it := e.Key(); it.Next(); {
		if parts == nil {
			offset = int(it.Node().Raw.Offset)
		}
		parts = append(parts, strings.ToLower(string(it.Node().Data)))
	}
	return strings.Join(parts, "."), offset
}

// A lineCount counts lines from the beginning of a text on, each byte once.
type lineCount struct {
	text          string
	offset, lines int // bytes that were looked at, and lines that end in them
}

// lineAt is that of an offset which is behind all before, from 1.
func (c *lineCount) lineAt(offset int) int {
	c.lines += strings.Count(c.text[c.offset:offset], "\n")
	c.offset = offset
	return c.lines + 1
}

// lineInNode is the line of a key in the i-th node, else that of the node; 0: unknown.
func (l keyLines) lineInNode(i int, key string) int {
	if i >= len(l.nodes) {
		return 0
	}
	return cmp.Or(l.nodes[i][strings.ToLower(key)], l.nodes[i][""])
}

// lineInTable is the line of a key in a table, else that of the table; 0: unknown.
func (l keyLines) lineInTable(table, key string) int {
	lines := l.tables[strings.ToLower(table)]
	return cmp.Or(lines[strings.ToLower(key)], lines[""])
}

// A memberError is neither a name nor a number.
type memberError struct{ item any }

func (e *memberError) Error() string {
	return valueText(e.item) + " is neither a name nor a number"
}

// suggest is the known word that differs least from a word, if it is near at all. Case
// does not count.
func suggest(word string, known []string) string {
	word = strings.ToLower(word)
	far := func(other string) int { return text.EditDistance(word, strings.ToLower(other)) }
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	if far(best) > max(1, len(word)/3) {
		return ""
	}
	return best
}

// schedulerClass is the class that a line of the old scheduler's configuration is about: CLASSCFG[amd] ...
func schedulerClass(file string, line int) (name string, is bool) {
	for number, text := range strings.Split(file, "\n") {
		if rest, is := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(text)), "CLASSCFG["); is && number+1 == line {
			at := strings.Index(strings.ToUpper(text), "CLASSCFG[") + len("CLASSCFG[")
			name, _, closed := strings.Cut(text[at:], "]")
			return name, closed && rest != ""
		}
	}
	return "", false
}
