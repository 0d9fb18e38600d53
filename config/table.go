package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A keyTable is the keys of one table of the file, to be taken one after the other. What is left was not known.
type keyTable struct {
	r        *reader
	name     string               // as lines are found by it; empty: above the first table
	keys     map[string]any       // in lower case
	line     func(key string) int // nil: by the name
	spelling map[string]string    // a key as the file spells it
}

// openTable takes a value for a table; nil, and a fault, if it is none.
func (r *reader) openTable(name string, value any, write string) *keyTable {
	keys, ok := value.(map[string]any)
	if !ok {
		r.addFault(r.lineOf(name, ""), "%s: %s is no table; write %s, with its keys in the lines below", name, valueText(value), write)
		return nil
	}
	t := &keyTable{r: r, name: name, keys: make(map[string]any), spelling: make(map[string]string)}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		t.keys[strings.ToLower(key)], t.spelling[strings.ToLower(key)] = keys[key], key
	}
	return t
}

// openTables takes a value for a list of tables, [[NAME]].
func (r *reader) openTables(name string, value any) (all []*keyTable) {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		r.addFault(r.lineOf(name, ""), "%s: write [[%s]], with its keys in the lines below", name, name)
		return nil
	}
	for i, entry := range list {
		if t := r.openTable(fmt.Sprintf("%s[%d]", name, i), entry, "[["+name+"]]"); t != nil {
			all = append(all, t)
		}
	}
	return all
}

// lineOf is the line of a key in a table, or else of what stands above all tables.
func (r *reader) lineOf(table, key string) int {
	if line := r.lines.lineInTable(table, key); line > 0 {
		return line
	}
	first, _, _ := strings.Cut(table, "[")
	return r.lines.global[strings.ToLower(first)]
}

// lineOf is the line of a key.
func (t *keyTable) lineOf(key string) int {
	if t.line != nil {
		return t.line(strings.ToLower(key))
	}
	return t.r.lineOf(t.name, key)
}

func (t *keyTable) addFault(key, format string, args ...any) {
	t.r.addFault(t.lineOf(key), "%s: %s", key, fmt.Sprintf(format, args...))
}

// takeValue is a value, which is not left behind; nil: it is not there.
func (t *keyTable) takeValue(key string) any {
	value := t.keys[strings.ToLower(key)]
	delete(t.keys, strings.ToLower(key))
	return value
}

// reportUnknownKeys tells of the keys that nobody took.
func (t *keyTable) reportUnknownKeys(known ...string) {
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		near := ""
		if word := suggest(key, known); word != "" {
			near = fmt.Sprintf(" (did you mean %q?)", word)
		}
		t.r.addFault(t.lineOf(key), "unknown key %q%s; allowed: %s", t.spelling[key], near, strings.Join(known, ", "))
	}
}

// takeText takes a text; empty: it is not there, or is none.
func (t *keyTable) takeText(key string) string {
	switch value := t.takeValue(key).(type) {
	case nil:
	case string:
		if value != "" {
			return value
		}
		t.addFault(key, "is empty")
	default:
		t.addFault(key, "%s is no text in quotes", valueText(value))
	}
	return ""
}

// takeScalar takes a text, a number, or yes and no, as a text.
func (t *keyTable) takeScalar(key string) (text string, there bool) {
	value := t.takeValue(key)
	if value == nil {
		return "", false
	}
	if text, there = scalarText(value); !there {
		t.addFault(key, "is neither a text nor a number")
	}
	return text, there
}

func scalarText(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case bool:
		return map[bool]string{true: "yes", false: "no"}[value], true
	case int64:
		return strconv.FormatInt(value, 10), true
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), true
	}
	return "", false
}

// takeWords takes a list of texts, or one text that split cuts; nil: it is not there. Numbers are texts.
func (t *keyTable) takeWords(key string, split func(string) []string) (words []string) {
	value := t.takeValue(key)
	if value == nil {
		return nil
	}
	if text, one := scalarText(value); one {
		return append([]string{}, split(text)...)
	}
	list, ok := value.([]any)
	words = []string{}
	for _, item := range list {
		word, is := scalarText(item)
		ok = ok && is
		words = append(words, word)
	}
	if !ok {
		t.addFault(key, "%s is no list of texts, [\"A\", \"B\"]", valueText(value))
	}
	return words
}

// singleton is a text as a list of it.
func singleton(text string) []string { return []string{text} }

// takeYesNo takes yes, no, true or false.
func (t *keyTable) takeYesNo(key string, otherwise bool) bool {
	value := t.takeValue(key)
	on, ok := parseYesNo(value, otherwise)
	if !ok {
		t.addFault(key, "%s is not yes or no", valueText(value))
	}
	return on
}

// takeMembers takes a list of users or groups; nil: any.
func (t *keyTable) takeMembers(key string, find func(string) (int, error)) []int {
	return t.r.readMembers(t.lineOf(key), key, t.takeValue(key), find)
}
