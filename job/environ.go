package job

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"remshell/batch"
)

// OuterVariables lists the variables by which launchers tell a process that it is a rank of
// theirs. A rank of ours that saw another's would believe it belongs there (cli.md
// ENV-2, PMIX-8); a trailing * stands for any rest.
var OuterVariables = append(batch.RankVariables(),
	"PMI_*", "PMI2_*", "PMIX_*", "HYDI_*", "MPI_LOCAL*", "MPIEXEC_*", "OMPI_COMM_WORLD_*", "OMPI_MCA_orte_*",
	"OMPI_MCA_ess*", "OMPI_MCA_pmix", "OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir", "OMPI_FILE_LOCATION", "OMPI_PARENT_PORT",
	"OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX", "OMPI_UNIVERSE_SIZE", "OMPI_WORLD_*", "JSM_*",
	"PRTE_*", "PALS_*", "PSID_CPU_PINNING", "__PINNING__",
)

// SuggestedVariable is the variable in which a rank of ours finds what we have suggested to it, beside what
// Outer lists: variables that a user might have set as well.
const SuggestedVariable = "MPIEXEC_SUGGESTED"

// SuggestedValue is the value of Suggested: the names of assignments, and marks of their values.
func SuggestedValue(assignments []string) string {
	var marks []string
	for _, assignment := range assignments {
		if name, _, _ := strings.Cut(assignment, "="); !MatchesPattern(OuterVariables, name) {
			marks = append(marks, assignmentHash(assignment))
		}
	}
	return strings.Join(marks, ":")
}

// assignmentHash tells an assignment from others, also from those of the same variable.
func assignmentHash(assignment string) string {
	name, _, _ := strings.Cut(assignment, "=")
	return fmt.Sprintf("%s=%08x", name, crc32.ChecksumIEEE([]byte(assignment)))
}

// OuterFilter tells which assignments of an environment are an outer launcher's. What it has suggested
// counts as its own until somebody changes it.
func OuterFilter(environ []string) func(assignment string) bool {
	suggested := strings.Split(EnvValue(environ, SuggestedVariable), ":")
	return func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return MatchesPattern(OuterVariables, name) || slices.Contains(suggested, assignmentHash(assignment))
	}
}

// MatchesPattern reports whether the name of a variable is one of the patterns; a trailing *
// stands for any rest.
func MatchesPattern(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return name == p || wild && strings.HasPrefix(name, prefix)
	})
}

// EnvValue returns a variable of an environment, "" when it is not there.
func EnvValue(environ []string, name string) string {
	value, _ := LookupEnv(environ, name)
	return value
}

// LookupEnv is Value for variables that may be there and empty. Of several the last counts.
func LookupEnv(environ []string, name string) (value string, defined bool) {
	for _, assignment := range slices.Backward(environ) { // no text is put together: ranks are asked of by the thousand
		if end := len(name); len(assignment) > end && assignment[end] == '=' && assignment[:end] == name {
			return assignment[end+1:], true
		}
	}
	return "", false
}

// Variables looks variables of an environment up, as Lookup does.
func Variables(environ []string) func(name string) (value string, defined bool) {
	return func(name string) (string, bool) { return LookupEnv(environ, name) }
}

// DefaultPath is the PATH of a process whose environment has none, as sshd(8) sets it for a login.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin"

// OMPPlaces says where the threads of OpenMP run in a rank that is bound (aprun.md 3); empty: nobody says so.
type OMPPlaces string

const (
	OMPPlacePerCPU  OMPPlaces = "cpu"   // each on a CPU of the rank's
	OMPPlacePerRank OMPPlaces = "depth" // on all of them
)
