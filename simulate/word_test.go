package simulate

import (
	"encoding/json"
	"testing"
)

// Values in a file are numbers, texts, yes and no, or lists, and are written as they were read.
func TestWords(t *testing.T) {
	type file struct {
		Word   *scalarText   `json:"word,omitempty"`
		Answer *scalarOrBool `json:"answer,omitempty"`
		Plus   textList      `json:"plus,omitempty"`
	}
	for _, test := range []struct{ text, want string }{
		{`{"word": null, "answer": null, "plus": null}`, `{}`},
		{`{"word": 4, "answer": 2.5, "plus": "a,b"}`, `{"word":4,"answer":"2.5","plus":["a,b"]}`},
		{`{"word": "4K", "answer": true, "plus": ["a", "b"]}`, `{"word":"4K","answer":"yes","plus":["a","b"]}`},
		{`{"word": "", "answer": false, "plus": false}`, `{"word":"","answer":"no","plus":["no"]}`},
		{`{"word": true}`, ""},
		{`{"answer": {}}`, ""},
		{`{"plus": [1]}`, ""},
	} {
		var f file
		err := json.Unmarshal([]byte(test.text), &f)
		got, _ := json.Marshal(f)
		if (err != nil) != (test.want == "") || err == nil && string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.text, got, err, test.want)
		}
	}
}
