package reserve

import (
	"strings"
	"testing"

	"remshell/job"
)

// What ranks are told of their memory (aprun.md 4).
func TestWhatRanksAreToldOfMemory(t *testing.T) {
	const huge = " MPIEXEC_HUGEPAGES="
	for _, test := range []struct {
		name         string
		asked, total int64
		ranks        int
		wish         job.HugePageRequest
		want         string
	}{
		{"an even part", 0, 8<<30 + 5<<20, 4, "", "MPIEXEC_MEM_PER_RANK=2049"},
		{"rounded down", 0, 1<<20 - 1, 1, "", "MPIEXEC_MEM_PER_RANK=0"},
		{"nobody knows", 0, 0, 4, "", ""},
		{"what was asked for", 3 << 30, 8 << 30, 4, "", "MPIEXEC_MEM_PER_RANK=3072"},
		{"though nobody knows what there is", 512 << 20, 0, 1, "", "MPIEXEC_MEM_PER_RANK=512"},
		{"huge pages are wished for", 1 << 30, 0, 2, job.HugePagesPreferred, "MPIEXEC_MEM_PER_RANK=1024" + huge + "want"},
		{"huge pages are needed", 1 << 30, 8 << 30, 2, job.HugePagesRequired, "MPIEXEC_MEM_PER_RANK=1024" + huge + "need"},
	} {
		var req job.Request
		req.Memory, req.HugePages = test.asked, test.wish
		if got := strings.Join(memoryVariables(req, test.total, test.ranks), " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
