package reserve

import (
	"strings"
	"testing"

	"remshell/job"
)

// What ranks are told of their memory (aprun.md 4).
func TestWhatRanksAreToldOfMemory(t *testing.T) {
	for _, test := range []struct {
		name string
		huge job.HugeWish
		want string
	}{
		{"no word of huge pages", "", ""},
		{"they are wished for", job.HugeWanted, "MPIEXEC_HUGEPAGES=want"},
		{"they are needed", job.HugeNeeded, "MPIEXEC_HUGEPAGES=need"},
	} {
		var req job.Request
		req.Huge = test.huge
		if got := strings.Join(base(req, job.NodeDef{}, nil).Set, " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
