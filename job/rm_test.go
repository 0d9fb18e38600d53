package job

import (
	"strings"
	"testing"
)

// The ID has the batch system, the job and the step. It is empty if it would be too long or not printable (RM-20).
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

// A batch system accounts for ranks if one of its known processes is above the helper.
func TestAccounts(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		rm, holder string
		want       *bool
	}{
		{"slurm", "slurmstepd", &yes},
		{"slurm", "", &no},
		{"slurm", "sge_shepherd", &no},
		{"slurm", "slurmstepdx", &no},
		{"sge", "sge_shepherd-71", &yes},
		{"lsf", "resolver", &no},
		{"flux", "flux-broker-3", &yes},
		{"cobalt", "slurmstepd", nil},
		{"file", "", nil},
	} {
		got := (&RM{Name: test.rm}).Accounts(test.holder)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s below %q: %v", test.rm, test.holder, got)
		}
	}
	var none *RM
	if none.Accounts("slurmstepd") != nil {
		t.Error("there is no batch system, and yet it holds something")
	}
}
