package option

import (
	"strings"
	"testing"

	"remshell/usererr"
)

// A spelling that makes a mapping of a number speaks of that number, not of the mapping.
func TestSpellingsThatTakeANumberSaySo(t *testing.T) {
	table := Mpiexec(func(string) int { return 0 })
	for _, test := range []struct{ line, variable, want string }{
		{"-npersocket -n 1 a", "", "-npersocket needs a value, but the option -n follows: write -npersocket N"},
		{"-npersocket", "", "-npersocket needs a value: write -npersocket N"},
		{"-npersocket x a", "", `-npersocket: "x" is not a number: write -npersocket N`},
		{"--ntasks-per-socket=0 a", "", "--ntasks-per-socket: 0 is too small; the smallest value is 1: write --ntasks-per-socket N"},
		{"-npernuma 1:core a", "", `-npernuma: "1:core" is not a number: write -npernuma N`},
		{"a", "MPIEXEC_NPERSOCKET=x", `MPIEXEC_NPERSOCKET: "x" is not a number: `},
	} {
		_, err := table.Parse(strings.Fields(test.line), Sources{Environ: []string{test.variable}})
		if err == nil {
			t.Errorf("%s %s: no error", test.variable, test.line)
			continue
		}
		first := usererr.Split(err)[0]
		if got := first.Error() + ": " + usererr.Hint(first); got != test.want {
			t.Errorf("%s %s:\n got %s\nwant %s", test.variable, test.line, got, test.want)
		}
	}
}
