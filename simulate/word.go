package simulate

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// A scalarText is a number or a string in the state file. It stores an invalid number as a string, so that a later
// error names the option instead of the file.
type scalarText string

// UnmarshalJSON reads a number or a string, and stores it as a string.
func (w *scalarText) UnmarshalJSON(raw []byte) error {
	switch {
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(w))
	case strings.ContainsAny(string(raw[:1]), "-0123456789"):
		*w = scalarText(raw)
		return nil
	}
	what := map[byte]string{'[': "a list", '{': "an object"}[raw[0]]
	return &json.UnmarshalTypeError{Value: cmp.Or(what, string(raw)), Type: reflect.TypeFor[string]()}
}

// MarshalJSON writes a string that is a number as a JSON number, and any other string as a JSON string.
func (w scalarText) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(w)); err == nil {
		return json.Marshal(n)
	}
	return json.Marshal(string(w))
}

// A scalarOrBool is a scalarText that may also be true or false in the file, for yes and no.
type scalarOrBool scalarText

// UnmarshalJSON reads a number, a string, true or false.
func (a *scalarOrBool) UnmarshalJSON(raw []byte) error {
	if text, truth := map[string]scalarOrBool{"true": "yes", "false": "no"}[string(raw)]; truth {
		*a = text
		return nil
	}
	return (*scalarText)(a).UnmarshalJSON(raw)
}

// MarshalJSON writes the value as a scalarText does.
func (a scalarOrBool) MarshalJSON() ([]byte, error) { return scalarText(a).MarshalJSON() }

// A textList is a list of strings. The file may also contain a single string instead of a list.
type textList []string

// UnmarshalJSON reads a single string or a list of strings.
func (w *textList) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' || string(raw) == "null" {
		return json.Unmarshal(raw, (*[]string)(w))
	}
	*w = []string{""}
	return (*scalarOrBool)(&(*w)[0]).UnmarshalJSON(raw)
}
