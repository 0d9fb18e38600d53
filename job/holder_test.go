package job

import "testing"

// Which process above a helper means that a batch system holds its ranks.
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
	for name, want := range map[string]bool{"slurmstepd": true, "sge_shepherd-7": true, "sshd": false, "": false, "res": true, "reserve": false} {
		if IsHolder(name) != want {
			t.Errorf("IsHolder(%q) is %t", name, !want)
		}
	}
}
