package simulate

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// A scalarText is a number or a text of a file. A bad number of the user is no fault of the file.
type scalarText string

// UnmarshalJSON keeps the text of a number.
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

// MarshalJSON writes a number as one.
func (w scalarText) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(w)); err == nil {
		return json.Marshal(n)
	}
	return json.Marshal(string(w))
}

// A scalarOrBool is a word, or true or false, which are yes and no.
type scalarOrBool scalarText

// UnmarshalJSON reads any of these.
func (a *scalarOrBool) UnmarshalJSON(raw []byte) error {
	if text, truth := map[string]scalarOrBool{"true": "yes", "false": "no"}[string(raw)]; truth {
		*a = text
		return nil
	}
	return (*scalarText)(a).UnmarshalJSON(raw)
}

// MarshalJSON writes an answer as a word.
func (a scalarOrBool) MarshalJSON() ([]byte, error) { return scalarText(a).MarshalJSON() }

// textList are one word, or a list.
type textList []string

// UnmarshalJSON reads either.
func (w *textList) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' || string(raw) == "null" {
		return json.Unmarshal(raw, (*[]string)(w))
	}
	*w = []string{""}
	return (*scalarOrBool)(&(*w)[0]).UnmarshalJSON(raw)
}
