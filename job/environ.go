package job

import (
	"slices"
	"strings"
)

// Outer lists the variables by which launchers tell a process that it is a rank of
// theirs. A rank of ours that saw another's would believe it belongs there (cli.md
// ENV-2, PMIX-8); a trailing * stands for any rest.
var Outer = []string{
	"PMI_*", "PMI2_*", "PMIX_*", "HYDI_*", "MPI_LOCAL*", "MPIEXEC_*", "OMPI_COMM_WORLD_*", "OMPI_MCA_orte_*",
	"OMPI_MCA_ess*", "OMPI_MCA_pmix", "OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir", "OMPI_FILE_LOCATION", "OMPI_PARENT_PORT",
	"OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX", "OMPI_UNIVERSE_SIZE", "OMPI_WORLD_*", "JSM_*",
	"PRTE_*", "PALS_*", "ALPS_*", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK_PID",
	"FLUX_TASK_*", "FLUX_JOB_ID", "FLUX_PMI_LIBRARY_PATH", "PSID_CPU_PINNING", "__PINNING__",
}

// Matches reports whether the name of a variable is one of the patterns; a trailing *
// stands for any rest.
func Matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return name == p || wild && strings.HasPrefix(name, prefix)
	})
}

// Value returns a variable of an environment, "" when it is not there.
func Value(environ []string, name string) string {
	value, _ := Lookup(environ, name)
	return value
}

// Lookup is Value for variables that may be there and empty. Of several the last counts.
func Lookup(environ []string, name string) (value string, defined bool) {
	for _, assignment := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(assignment, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
