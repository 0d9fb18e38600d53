package job

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"remshell/batch"
)

// OuterVariables lists the environment variables that other launchers and batch systems set to tell a process that it
// is a rank. mpiexec does not pass these variables on to its own ranks, since the ranks would otherwise believe that
// the other launcher has started them (cli.md ENV-2, PMIX-8). A trailing * matches any text.
var OuterVariables = append(batch.RankVariables(),
	"PMI_*", "PMI2_*", "PMIX_*", "HYDI_*", "MPI_LOCAL*", "MPIEXEC_*", "OMPI_COMM_WORLD_*", "OMPI_MCA_orte_*",
	"OMPI_MCA_ess*", "OMPI_MCA_pmix", "OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir", "OMPI_FILE_LOCATION", "OMPI_PARENT_PORT",
	"OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX", "OMPI_UNIVERSE_SIZE", "OMPI_WORLD_*", "JSM_*",
	"PRTE_*", "PALS_*", "PSID_CPU_PINNING", "__PINNING__",
)

// SuggestedVariable is an environment variable of each rank. It lists the other variables that mpiexec has set in
// the rank's environment, except those in OuterVariables. With this list, an mpiexec that runs inside the rank can
// distinguish these variables from those that the user has set.
const SuggestedVariable = "MPIEXEC_SUGGESTED"

// SuggestedValue returns the value of SuggestedVariable for these assignments (NAME=VALUE). It consists of NAME=HASH
// for each of them, joined by colons, and omits OuterVariables.
func SuggestedValue(assignments []string) string {
	var marks []string
	for _, assignment := range assignments {
		if name, _, _ := strings.Cut(assignment, "="); !MatchesPattern(OuterVariables, name) {
			marks = append(marks, assignmentHash(assignment))
		}
	}
	return strings.Join(marks, ":")
}

// assignmentHash returns the variable's name and a checksum of the whole assignment, as "NAME=HASH".
func assignmentHash(assignment string) string {
	name, _, _ := strings.Cut(assignment, "=")
	return fmt.Sprintf("%s=%08x", name, crc32.ChecksumIEEE([]byte(assignment)))
}

// OuterFilter returns a function that reports whether a given assignment in environ was made by an outer launcher.
// This includes the assignments that the outer launcher lists in SuggestedVariable, if their values have not
// changed.
func OuterFilter(environ []string) func(assignment string) bool {
	suggested := strings.Split(EnvValue(environ, SuggestedVariable), ":")
	return func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return MatchesPattern(OuterVariables, name) || slices.Contains(suggested, assignmentHash(assignment))
	}
}

// MatchesPattern reports whether name matches one of the patterns. A trailing * in a pattern matches any text.
func MatchesPattern(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return name == p || wild && strings.HasPrefix(name, prefix)
	})
}

// EnvValue returns the value of a variable in environ, or "" if the variable is not set.
func EnvValue(environ []string, name string) string {
	value, _ := LookupEnv(environ, name)
	return value
}

// LookupEnv returns the value of a variable in environ, and whether the variable is set. If there are several
// assignments, it returns the last value.
func LookupEnv(environ []string, name string) (value string, defined bool) {
	for _, assignment := range slices.Backward(environ) { // without building name+"=": this runs once for each of thousands of ranks
		if end := len(name); len(assignment) > end && assignment[end] == '=' && assignment[:end] == name {
			return assignment[end+1:], true
		}
	}
	return "", false
}

// Variables returns a function that looks up variables in environ as LookupEnv does.
func Variables(environ []string) func(name string) (value string, defined bool) {
	return func(name string) (string, bool) { return LookupEnv(environ, name) }
}

// DefaultPath is the value of PATH for a process whose environment has no PATH. sshd(8) sets the same value for a
// login.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin"

// OMPPlaces says how mpiexec sets OMP_PLACES for ranks that are bound to CPUs (aprun.md 3). If it is empty,
// mpiexec does not set the variable.
type OMPPlaces string

const (
	OMPPlacePerCPU  OMPPlaces = "cpu"   // each thread on one CPU of the rank
	OMPPlacePerRank OMPPlaces = "depth" // each thread on all CPUs of the rank
)
