package whatif

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// A word is a number or a text of a file. A bad number of the user is no fault of the file.
type word string

// UnmarshalJSON keeps the text of a number.
func (w *word) UnmarshalJSON(raw []byte) error {
	switch {
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(w))
	case strings.ContainsAny(string(raw[:1]), "-0123456789"):
		*w = word(raw)
		return nil
	}
	what := map[byte]string{'[': "a list", '{': "an object"}[raw[0]]
	return &json.UnmarshalTypeError{Value: cmp.Or(what, string(raw)), Type: reflect.TypeFor[string]()}
}

// MarshalJSON writes a number as one.
func (w word) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(w)); err == nil {
		return json.Marshal(n)
	}
	return json.Marshal(string(w))
}

// An answer is a word, or true or false, which are yes and no.
type answer word

// UnmarshalJSON reads any of these.
func (a *answer) UnmarshalJSON(raw []byte) error {
	if text, truth := map[string]answer{"true": "yes", "false": "no"}[string(raw)]; truth {
		*a = text
		return nil
	}
	return (*word)(a).UnmarshalJSON(raw)
}

// MarshalJSON writes an answer as a word.
func (a answer) MarshalJSON() ([]byte, error) { return word(a).MarshalJSON() }

// words are one word, or a list.
type words []string

// UnmarshalJSON reads either.
func (w *words) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' || string(raw) == "null" {
		return json.Unmarshal(raw, (*[]string)(w))
	}
	*w = []string{""}
	return (*answer)(&(*w)[0]).UnmarshalJSON(raw)
}
