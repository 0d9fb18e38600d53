package interim

import (
	"strings"
	"testing"

	"remshell/cli/option"
	"remshell/usererr"
)

// Without --report there is no file to write.
func TestReportEveryNeedsReport(t *testing.T) {
	for args, want := range map[string]string{
		"--report-every 1 a":            "--report-every requires --report; add --report FILE, or leave out --report-every",
		"--report-every 1 --report f a": "",
	} {
		line, err := option.Mpiexec(func(string) int { return 1 }).Parse(strings.Fields(args), option.Sources{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := line.Misplaced(true); err != nil {
			got = err.Error() + "; " + usererr.Hint(err)
		}
		if got != want {
			t.Errorf("%s: %s; want %s", args, got, want)
		}
	}
}
