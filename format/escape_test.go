package format

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, test := range []struct{ name, in, out string }{
		{"nothing", "", ""},
		{"plain", "rank 5 on n2 died", "rank 5 on n2 died"},
		{"letters of the world", "größe 大きさ — n°1", "größe 大きさ — n°1"},
		{"escape", "\x1b]0;title\x07\x1b[2J", `\x1b]0;title\x07\x1b[2J`},
		{"a forged line", "no\nmpiexec: all is well", "no mpiexec: all is well"},
		{"line ends of servers", "one\r\ntwo", "one two"},
		{"carriage return", "refused\rgranted", `refused\x0dgranted`},
		{"tab", "a\tb", "a b"},
		{"DEL and NUL", "a\x7f\x00", `a\x7f\x00`},
		{"C1", "a\u009b2J", `a\x9b2J`},
		{"no UTF-8", "a\x9b2J\xff\xc3", `a\x9b2J\xff\xc3`},
		{"U+FFFD itself", "a\ufffd", "a\ufffd"},
		{"direction", "abc\u202ecba\u2066", `abc\u202ecba\u2066`},
		{"invisible", "pass\u200bword\u00ad\ufeff", `pass\u200bword\u00ad\ufeff`},
		{"tags", "a\U000e0041", `a\U000e0041`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"a sentence as long as may be", strings.Repeat("a", 4096), strings.Repeat("a", 4096)},
		{"a longer one", strings.Repeat("a", 4097), strings.Repeat("a", 4093) + "..."},
		{"never half a character", strings.Repeat("é", 2049), strings.Repeat("é", 2046) + "..."},
		{"never half an escape", strings.Repeat("\x1b", 1025), strings.Repeat(`\x1b`, 1023) + "..."},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := EscapeSentence(test.in)
			if got != test.out {
				t.Errorf("got  %q\nwant %q", got, test.out)
			}
			if again := EscapeSentence(got); again != got {
				t.Errorf("again: %q", again)
			}
		})
	}
}

func TestWord(t *testing.T) {
	if got, want := EscapeField(strings.Repeat("n", 257)), strings.Repeat("n", 253)+"..."; got != want {
		t.Errorf("got %q", got)
	}
	if got := EscapeField("a\nb"); got != "a b" {
		t.Errorf("got %q", got)
	}
}

func TestCleanLines(t *testing.T) {
	if got, want := EscapeLines("file:1: bad\n  1 | \x1b[2J\n"), "file:1: bad\n  1 | \\x1b[2J\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// EscapeJSON keeps the meaning of the JSON, and its result does not control a terminal.
func TestJSON(t *testing.T) {
	in := map[string]string{"user": "\x1b[2J\u009b31m\x7f\u202e\U000e0041 größe"}
	text, _ := json.MarshalIndent(in, "", "\t")
	got := EscapeJSON(text)
	var out map[string]string
	if err := json.Unmarshal(got, &out); err != nil || out["user"] != in["user"] {
		t.Errorf("%s: %q, %v", got, out, err)
	}
	if want := "{\n\t\"user\": \"\\u001b[2J\\u009b31m\\u007f\\u202e\\udb40\\udc41 größe\"\n}"; string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// FuzzEscape checks the rules of TRUST-28 for any text.
func FuzzEscape(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := EscapeSentence(text)
		if !utf8.ValidString(got) || len(got) > maxSentence || EscapeSentence(got) != got {
			t.Errorf("%q", got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%q has %U", got, r)
			}
		}
	})
}

// JSON that needs no escapes is not copied: a large plan has 100 MB.
func TestPlainJSONIsNotCopied(t *testing.T) {
	text := []byte("{\"ranks\": [\n\t0, 1\r\n]}")
	var got []byte
	if pieces := testing.AllocsPerRun(100, func() { got = EscapeJSON(text) }); pieces != 0 || &got[0] != &text[0] {
		t.Errorf("%q: %v pieces of memory", got, pieces)
	}
}
