package job

import (
	"strings"
	"testing"
)

// What was granted is told apart by system, job and step; what cannot be written down is nothing (RM-20).
func TestRMID(t *testing.T) {
	for _, test := range []struct {
		rm   *RM
		want string
	}{
		{nil, ""},
		{&RM{Name: "file"}, ""},
		{&RM{Name: "slurm", Job: "7"}, "slurm 7"},
		{&RM{Name: "slurm", Job: "7", Step: "0"}, "slurm 7.0"},
		{&RM{Name: "pbs", Job: "7\x1b[2J"}, ""},
		{&RM{Name: "pbs", Job: strings.Repeat("7", 200)}, ""},
	} {
		if got := test.rm.ID(); got != test.want {
			t.Errorf("%+v: %q, want %q", test.rm, got, test.want)
		}
	}
}
