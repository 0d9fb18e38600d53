package pmi2

import (
	"strings"
	"testing"

	"remshell/pmiserver/pmiversion"
)

// Parse undoes the sender's escapes.
func FuzzParse(f *testing.F) {
	f.Add("a", "host;0=x y;;end", "junk")
	f.Add("b", ";", ";=;;")
	f.Fuzz(func(t *testing.T, key, value, junk string) {
		var a pmiversion.Fields
		Parse(&a, []byte(junk)) // must not panic
		if key == "" || key[0] == 0 || strings.ContainsAny(key, ";=") {
			return
		}
		body := append(appendEscaped([]byte("cmd=put;"+key+"="), []byte(value)), ";next=1;"...)
		Parse(&a, body)
		want := value
		if key == "cmd" {
			want = "put"
		}
		if got := string(a.Text(key)); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	})
}
