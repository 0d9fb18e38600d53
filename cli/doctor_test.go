package cli

import (
	"slices"
	"strings"
	"testing"

	"remshell/cli/option"
)

// What the doctor advises to type next is what was asked about.
func TestNextLine(t *testing.T) {
	for _, test := range []struct {
		args   string
		failed bool
		want   string
	}{
		{"--doctor", false, "Next: mpiexec --selftest"},
		{"--doctor n1 n2", false, "Next: mpiexec --selftest n1 n2"},
		{"--doctor --json --accept-new-host-keys n[1-2],n3", false, "Next: mpiexec --accept-new-host-keys --selftest 'n[1-2],n3'"},
		{"--doctor n1 n2", true, "When that is mended, ask again: mpiexec --doctor n1 n2"},
		{"--doctor -host n1,n2", false, "Next: mpiexec -host n1,n2 --selftest"},
		{"--doctor -host n1,n2 -n 4", false, "Next: mpiexec -host n1,n2 -n 4 --selftest"},
		{"-host n1,n2 --doctor -n 4 ./prog -v --json it's", false, `Next: mpiexec -host n1,n2 -n 4 ./prog -v --json 'it'\''s'`},
		{"--doctor -host n1 --json=file ./prog --doctor", true, "When that is mended, ask again: mpiexec --doctor -host n1 --json=file ./prog --doctor"},
		{"--doctor -configfile FILE", false, "Next: mpiexec -configfile FILE"},
		{"--doctor -host n1 -n 1 ./a : -n 2 ./b c", false, "Next: mpiexec -host n1 -n 1 ./a : -n 2 ./b c"},
	} {
		args := strings.Fields(test.args)
		config := func(string) (string, error) { return "-host n1 ./prog it", nil }
		line, err := option.Mpiexec(signalNumber).Parse(slices.Clone(args), option.Sources{Read: config})
		if err != nil {
			t.Fatal(err)
		}
		got := nextLine(args, line, test.failed)
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
		if _, err = option.Mpiexec(signalNumber).Parse(strings.Fields(strings.ReplaceAll(got[strings.Index(got, "mpiexec ")+8:], "'", "")), option.Sources{Read: config}); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}
