//go:build linux

package rpc

import (
	"slices"
	"testing"

	"remshell/job"
)

// Children get the variables that their parent sets for them. Of its identity they get only the port by which they
// find it (PMIX-42).
func TestVariablesForChildren(t *testing.T) {
	parent := []string{"OMPI_MCA_pml=ob1", "OMPI_MCA_mpi_oversubscribe=0", "PMIX_RANK=0", "OMPI_MCA_btl=self",
		job.SuggestedVariable + "=" + job.SuggestedValue([]string{"OMPI_MCA_pml=ob1", "OMPI_MCA_mpi_oversubscribe=0"})}
	given := []string{"OMPI_PARENT_PORT=1.0:2", "OMPI_MCA_pml=ob1", "OMPI_MCA_mpi_oversubscribe=1", "OMPI_MCA_ess=pmi", "OMPI_MCA_orte_ess_num_procs=1",
		"PMIX_RANK=7", "OMPI_MCA_btl=self", "COLOR=blue", "=x", "nothing"}
	want := []string{"OMPI_PARENT_PORT=1.0:2", "OMPI_MCA_mpi_oversubscribe=1", "OMPI_MCA_btl=self", "COLOR=blue"}
	if got := childEnv(given, job.OuterFilter(parent)); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}
