package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A keyTable is a table of the file while it is being read. The methods that read a key remove the key. The keys that
// remain at the end are unknown keys.
type keyTable struct {
	r        *reader
	name     string               // under which lines are stored; empty: the top level
	keys     map[string]any       // in lower case
	line     func(key string) int // overrides the lookup of lines by name; may be nil
	spelling map[string]string    // keys as the file spells them
}

// openTable returns value as a table. If value is not a table, it returns nil and adds an error. write is the correct
// notation, such as "[gang]", for the error.
func (r *reader) openTable(name string, value any, write string) *keyTable {
	keys, ok := value.(map[string]any)
	if !ok {
		r.addFault(r.lineOf(name, ""), "%s: %s is not a table; write %s, and its keys below that line", name, valueText(value), write)
		return nil
	}
	t := &keyTable{r: r, name: name, keys: make(map[string]any), spelling: make(map[string]string)}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		t.keys[strings.ToLower(key)], t.spelling[strings.ToLower(key)] = keys[key], key
	}
	return t
}

// openTables returns the tables of the list value, which are written as [[NAME]] in the file. If value is not a list,
// or an element is not a table, it adds an error.
func (r *reader) openTables(name string, value any) (all []*keyTable) {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		r.addFault(r.lineOf(name, ""), "%s: write [[%s]], and its keys below that line", name, name)
		return nil
	}
	for i, entry := range list {
		if t := r.openTable(fmt.Sprintf("%s[%d]", name, i), entry, "[["+name+"]]"); t != nil {
			all = append(all, t)
		}
	}
	return all
}

// lineOf returns the line of a key in a table. If that line is unknown, it returns the line of the table's header.
func (r *reader) lineOf(table, key string) int {
	if line := r.lines.lineInTable(table, key); line > 0 {
		return line
	}
	first, _, _ := strings.Cut(table, "[")
	return r.lines.global[strings.ToLower(first)]
}

// lineOf returns the line of a key of the table.
func (t *keyTable) lineOf(key string) int {
	if t.line != nil {
		return t.line(strings.ToLower(key))
	}
	return t.r.lineOf(t.name, key)
}

func (t *keyTable) addFault(key, format string, args ...any) {
	t.r.addFault(t.lineOf(key), "%s: %s", key, fmt.Sprintf(format, args...))
}

// takeValue removes a key from the table and returns its value, or nil if the key is missing.
func (t *keyTable) takeValue(key string) any {
	value := t.keys[strings.ToLower(key)]
	delete(t.keys, strings.ToLower(key))
	return value
}

// reportUnknownKeys adds an error for each key that no take method has removed. The error suggests one of the known
// keys.
func (t *keyTable) reportUnknownKeys(known ...string) {
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		near := ""
		if word := suggest(key, known); word != "" {
			near = fmt.Sprintf(" (did you mean %q?)", word)
		}
		t.r.addFault(t.lineOf(key), "unknown key %q%s; allowed: %s", t.spelling[key], near, strings.Join(known, ", "))
	}
}

// takeText removes a key from the table and returns its value, which must be a non-empty string. It returns "" if
// the key is missing or the value is invalid.
func (t *keyTable) takeText(key string) string {
	switch value := t.takeValue(key).(type) {
	case nil:
	case string:
		if value != "" {
			return value
		}
		t.addFault(key, "is empty")
	default:
		t.addFault(key, "%s is not a string in quotes", valueText(value))
	}
	return ""
}

// takeScalar removes a key from the table and returns its value as text. The value may be a string, a number or a
// boolean, which is returned as "yes" or "no". ok is false if the key is missing or the value is invalid.
func (t *keyTable) takeScalar(key string) (text string, ok bool) {
	value := t.takeValue(key)
	if value == nil {
		return "", false
	}
	if text, ok = scalarText(value); !ok {
		t.addFault(key, "the value is neither a string nor a number")
	}
	return text, ok
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

// takeWords removes a key from the table and returns its value, a list of strings and numbers. The value may also be
// a single string. Then takeWords returns the result of split for that string. It returns nil if the key is missing.
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
		t.addFault(key, "%s is not a list of strings, [\"A\", \"B\"]", valueText(value))
	}
	return words
}

// singleton returns a list whose only element is text.
func singleton(text string) []string { return []string{text} }

// takeYesNo removes a key from the table and returns its value, which is yes, no, true or false. It returns
// fallback if the key is missing.
func (t *keyTable) takeYesNo(key string, fallback bool) bool {
	value := t.takeValue(key)
	on, ok := parseYesNo(value, fallback)
	if !ok {
		t.addFault(key, "%s is not yes or no", valueText(value))
	}
	return on
}

// takeMembers removes a key from the table and returns the user or group IDs that it lists. If the key is missing
// or the value is "any", it returns nil, which admits everybody.
func (t *keyTable) takeMembers(key string, find func(string) (int, error)) []int {
	return t.r.readMembers(t.lineOf(key), key, t.takeValue(key), find)
}
