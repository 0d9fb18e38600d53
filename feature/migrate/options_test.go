package migrate

import (
	"slices"
	"strings"
	"testing"

	"remshell/cli/option"
	"remshell/usererr"
)

// The request has the hosts of --from and --to. These are options of migrate alone.
func TestArgumentsOfTheRequest(t *testing.T) {
	table := option.Mpijob(option.Mpiexec(func(string) int { return 1 }))
	for _, test := range []struct {
		line string
		want []string
		hint string
	}{
		{"migrate last", nil, ""},
		{"migrate last --from n1 --to n[2-3] n4", []string{"from=n1", "to=n[2-3]"}, ""},
		{"migrate last --to " + strings.Repeat("n", 5000), nil, "give fewer hosts, and run the command again for the others"},
		{"evict last --to n1", nil, "leave out the option; these commands have it: migrate"},
		{"move last", nil, "mpijob migrate JOB: move a job to other hosts, after a checkpoint"},
	} {
		line, _, err := table.Parse(strings.Fields(test.line), option.Sources{})
		var got []string
		if err == nil {
			got, err = moveArgs(line)
		}
		if usererr.Hint(err) != test.hint || (err != nil) != (test.hint != "") || err == nil && !slices.Equal(got, test.want) {
			t.Errorf("%.40s: %q, %v; %s", test.line, got, err, usererr.Hint(err))
		}
	}
}
