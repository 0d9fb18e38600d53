package simulate

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// A scalarText is a number or a text in the file. It keeps an invalid number as text, so that the error
// names the option and not the file.
type scalarText string

// UnmarshalJSON stores the text of a number or a string.
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

// MarshalJSON writes a number as a number, and other texts as strings.
func (w scalarText) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(w)); err == nil {
		return json.Marshal(n)
	}
	return json.Marshal(string(w))
}

// A scalarOrBool is a scalarText that may also be true or false in the file, which mean yes and no.
type scalarOrBool scalarText

// UnmarshalJSON reads a number, a text, true or false.
func (a *scalarOrBool) UnmarshalJSON(raw []byte) error {
	if text, truth := map[string]scalarOrBool{"true": "yes", "false": "no"}[string(raw)]; truth {
		*a = text
		return nil
	}
	return (*scalarText)(a).UnmarshalJSON(raw)
}

// MarshalJSON writes the value like a scalarText.
func (a scalarOrBool) MarshalJSON() ([]byte, error) { return scalarText(a).MarshalJSON() }

// A textList is a list of texts. In the file it may be a single text.
type textList []string

// UnmarshalJSON reads one text or a list.
func (w *textList) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' || string(raw) == "null" {
		return json.Unmarshal(raw, (*[]string)(w))
	}
	*w = []string{""}
	return (*scalarOrBool)(&(*w)[0]).UnmarshalJSON(raw)
}
