package cli

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/job/column"
	"remshell/wire"
)

// A helper cannot report a value of a job that its column cannot have: --ps loses the connection and shows no value.
func TestReportedValueBeyondItsColumn(t *testing.T) {
	t.Parallel()
	claim := sampleMessages()["LedgerListed"].(*wire.LedgerListed).Claims[0]
	for i, c := range column.All {
		for _, option := range []string{"--ps", "--json --ps", "--status j"} {
			claim.Reported = append(make([]int64, i), c.Max+1)
			printed := runAgainstFake(t, append(strings.Fields(option), "a"), map[string]wire.Message{"ListLedger": &wire.LedgerListed{Claims: []job.Claim{claim}}}, func(wire.Message) {})
			if want := fmt.Sprintf("the host sent a LedgerListed message with an impossible value: %s %d", c.Name, c.Max+1); !strings.Contains(printed, want) || strings.Contains(printed, "JOB") || strings.Contains(printed, `"jobs"`) {
				t.Errorf("%s: want %q in\n%s", option, want, printed)
			}
		}
	}
}
