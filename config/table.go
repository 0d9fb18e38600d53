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
	r    *reader
	name string               // as lines are found by it; empty: above the first table
	keys map[string]any       // in lower case
	line func(key string) int // nil: by the name
	said map[string]string    // a key as the file spells it
}

// table takes a value for a table; nil, and a fault, if it is none.
func (r *reader) table(name string, value any, write string) *keyTable {
	keys, ok := value.(map[string]any)
	if !ok {
		r.fault(r.at(name, ""), "%s: %s is no table; write %s, with its keys in the lines below", name, shown(value), write)
		return nil
	}
	t := &keyTable{r: r, name: name, keys: make(map[string]any), said: make(map[string]string)}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		t.keys[strings.ToLower(key)], t.said[strings.ToLower(key)] = keys[key], key
	}
	return t
}

// tables takes a value for a list of tables, [[NAME]].
func (r *reader) tables(name string, value any) (all []*keyTable) {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		r.fault(r.at(name, ""), "%s: write [[%s]], with its keys in the lines below", name, name)
		return nil
	}
	for i, entry := range list {
		if t := r.table(fmt.Sprintf("%s[%d]", name, i), entry, "[["+name+"]]"); t != nil {
			all = append(all, t)
		}
	}
	return all
}

// at is the line of a key in a table, or else of what stands above all tables.
func (r *reader) at(table, key string) int {
	if line := r.lines.in(table, key); line > 0 {
		return line
	}
	first, _, _ := strings.Cut(table, "[")
	return r.lines.global[strings.ToLower(first)]
}

// at is the line of a key.
func (t *keyTable) at(key string) int {
	if t.line != nil {
		return t.line(strings.ToLower(key))
	}
	return t.r.at(t.name, key)
}

func (t *keyTable) fault(key, format string, args ...any) {
	t.r.fault(t.at(key), "%s: %s", key, fmt.Sprintf(format, args...))
}

// take is a value, which is not left behind; nil: it is not there.
func (t *keyTable) take(key string) any {
	value := t.keys[strings.ToLower(key)]
	delete(t.keys, strings.ToLower(key))
	return value
}

// done tells of the keys that nobody took.
func (t *keyTable) done(known ...string) {
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		near := ""
		if word := nearest(key, known); word != "" {
			near = fmt.Sprintf(" (did you mean %q?)", word)
		}
		t.r.fault(t.at(key), "unknown key %q%s; allowed: %s", t.said[key], near, strings.Join(known, ", "))
	}
}

// text takes a text; empty: it is not there, or is none.
func (t *keyTable) text(key string) string {
	switch value := t.take(key).(type) {
	case nil:
	case string:
		if value != "" {
			return value
		}
		t.fault(key, "is empty")
	default:
		t.fault(key, "%s is no text in quotes", shown(value))
	}
	return ""
}

// scalar takes a text, a number, or yes and no, as a text.
func (t *keyTable) scalar(key string) (text string, there bool) {
	value := t.take(key)
	if value == nil {
		return "", false
	}
	if text, there = scalarText(value); !there {
		t.fault(key, "is neither a text nor a number")
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

// words takes a list of texts, or one text that split cuts; nil: it is not there. Numbers are texts.
func (t *keyTable) words(key string, split func(string) []string) (words []string) {
	value := t.take(key)
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
		t.fault(key, "%s is no list of texts, [\"A\", \"B\"]", shown(value))
	}
	return words
}

// one is a text as a list of it.
func one(text string) []string { return []string{text} }

// yes takes yes, no, true or false.
func (t *keyTable) yes(key string, otherwise bool) bool {
	value := t.take(key)
	on, ok := truth(value, otherwise)
	if !ok {
		t.fault(key, "%s is not yes or no", shown(value))
	}
	return on
}

// members takes a list of users or groups; nil: any.
func (t *keyTable) members(key string, find func(string) (int, error)) []int {
	return t.r.members(t.at(key), key, t.take(key), find)
}
