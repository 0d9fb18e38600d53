package pmi1

import (
	"strings"
	"testing"

	"remshell/pmiserver/pmiversion"
)

// Fields are parts of the line, and a last field goes to its end.
func FuzzParse(f *testing.F) {
	f.Add("cmd=put kvsname=k0 key=x value=a b=c", uint8(0))
	f.Add("cmd=publish_name service=a b port=c port=d", uint8(1))
	f.Add("cmd= = == a= =b", uint8(2))
	f.Fuzz(func(t *testing.T, line string, which uint8) {
		tail := []string{"value", "port", "message"}[which%3]
		var a pmiversion.Fields
		Parse(&a, []byte(line), []string{tail})
		for _, fd := range a {
			if !strings.Contains(line, string(fd.Key)+"="+string(fd.Value)) {
				t.Errorf("%q=%q is no part of %q", fd.Key, fd.Value, line)
			}
		}
		if _, after, found := strings.Cut(line, " "+tail+"="); found && string(a.Text(tail)) != after {
			t.Errorf("%s of %q = %q, want %q", tail, line, a.Text(tail), after)
		}
	})
}
