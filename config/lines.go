package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"remshell/text"
)

// keyLines holds the line numbers of the keys in a file, for messages, since the TOML decoder reports line numbers
// only for syntax errors. Keys are in lower case. Keys in inline tables have no line number.
type keyLines struct {
	global map[string]int
	nodes  []map[string]int          // by [[node]] entry; "" is the header
	tables map[string]map[string]int // of other tables, by name; of one in a list: "class[0]"
	count  map[string]int            // number of tables in each list
}

// scanKeyLines returns the line numbers of the keys in a file, up to the first syntax error.
func scanKeyLines(file string) keyLines {
	l := keyLines{global: make(map[string]int), tables: make(map[string]map[string]int), count: make(map[string]int)}
	current, at := l.global, lineCount{text: file}
	var p unstable.Parser
	p.Reset([]byte(file))
	for p.NextExpression() {
		e := p.Expression()
		key, offset := keyOf(e)
		line := at.lineAt(offset)
		switch {
		case e.Kind == unstable.KeyValue:
			current[key] = cmp.Or(current[key], line)
		case key == "node":
			current = map[string]int{"": line}
			l.nodes = append(l.nodes, current)
		default: // another table
			current = map[string]int{"": line}
			l.tables[l.tableName(key, e.Kind == unstable.ArrayTable)] = current
		}
	}
	return l
}

// tableName returns the name under which keyLines stores the table whose header is key. If the table is an element of
// a list, the name includes the index: "class[0]", "class[0].limits".
func (l *keyLines) tableName(key string, isList bool) string {
	first, below, _ := strings.Cut(key, ".")
	if isList && below == "" {
		l.count[key]++
	}
	if n := l.count[first]; n > 0 {
		return strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", first, n-1, below), ".")
	}
	return key
}

// keyOf returns the key of an expression, which is a line KEY = VALUE or the header of a table. It also returns the
// offset of the expression in the file. For a header, the key is the name of the table.
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

// A lineCount converts increasing offsets in a text to line numbers. All conversions together take linear time.
type lineCount struct {
	text          string
	offset, lines int // bytes counted so far, and the line ends in them
}

// lineAt returns the number, counted from 1, of the line at an offset. Each call must have the same or a higher offset
// than the call before.
func (c *lineCount) lineAt(offset int) int {
	c.lines += strings.Count(c.text[c.offset:offset], "\n")
	c.offset = offset
	return c.lines + 1
}

// lineInNode returns the line of a key in the [[node]] entry with index i. If that line is unknown, it returns the
// line of the entry. If that is unknown, too, it returns 0.
func (l keyLines) lineInNode(i int, key string) int {
	if i >= len(l.nodes) {
		return 0
	}
	return cmp.Or(l.nodes[i][strings.ToLower(key)], l.nodes[i][""])
}

// lineInTable returns the line of a key in a table. If that line is unknown, it returns the line of the table. If
// that is unknown, too, it returns 0.
func (l keyLines) lineInTable(table, key string) int {
	lines := l.tables[strings.ToLower(table)]
	return cmp.Or(lines[strings.ToLower(key)], lines[""])
}

// A memberError is returned if an element of a list of users or groups is neither a name nor a number.
type memberError struct{ item any }

func (e *memberError) Error() string {
	return valueText(e.item) + " is neither a name nor a number"
}

// suggest returns the known word that is most similar to word, ignoring case. It returns "" if no known word is
// similar.
func suggest(word string, known []string) string {
	word = strings.ToLower(word)
	far := func(other string) int { return text.EditDistance(word, strings.ToLower(other)) }
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	if far(best) > max(1, len(word)/3) {
		return ""
	}
	return best
}

// schedulerClass returns the name of the class that a line of the file configures, if the line has the syntax
// "CLASSCFG[amd] ..." of the Moab scheduler. found is false if the line has another syntax.
func schedulerClass(file string, line int) (name string, found bool) {
	for number, text := range strings.Split(file, "\n") {
		if rest, is := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(text)), "CLASSCFG["); is && number+1 == line {
			at := strings.Index(strings.ToUpper(text), "CLASSCFG[") + len("CLASSCFG[")
			name, _, closed := strings.Cut(text[at:], "]")
			return name, closed && rest != ""
		}
	}
	return "", false
}
