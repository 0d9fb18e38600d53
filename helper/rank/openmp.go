//go:build linux

package rank

import (
	"strconv"
	"strings"

	"remshell/job"
)

// maxPlacesBytes is the maximum length, in bytes, of the OMP_PLACES that ranks get. The kernel allows 128 KiB in one
// variable.
const maxPlacesBytes = 64 << 10

// withOpenMPPlaces returns env with the variables that bind OpenMP's threads to a rank's CPUs (aprun.md 3), unless the
// user has set them. Ranks that are not bound do not get such variables.
func (id Identity) withOpenMPPlaces(env []string) []string {
	text := id.ompPlaces()
	if text == "" || len(text) > maxPlacesBytes {
		return env
	}
	var added []string
	for _, assignment := range []string{"OMP_PLACES=" + text, "OMP_PROC_BIND=close"} {
		name, _, _ := strings.Cut(assignment, "=")
		if _, found := job.LookupEnv(env, name); !found {
			added = append(added, assignment)
		}
	}
	if added == nil {
		return env
	}
	marks := job.SuggestedValue(added)
	if before, at := job.EnvValue(env, job.SuggestedVariable), job.SuggestedVariable+"="; before != "" {
		for i := range env {
			if strings.HasPrefix(env[i], at) {
				env[i] = at + before + ":" + marks
			}
		}
	} else {
		env = append(env, at+marks)
	}
	return append(env, added...)
}

// ompPlaces returns a rank's CPUs in OMP_PLACES format: a place for each CPU, {0},{1}, or one place for all, {0,1}.
func (id Identity) ompPlaces() string {
	between := map[job.OMPPlaces]string{job.OMPPlacePerCPU: "},{", job.OMPPlacePerRank: ","}[id.Places]
	if between == "" || len(id.CPUs) == 0 {
		return ""
	}
	cpus := make([]string, len(id.CPUs))
	for i, cpu := range id.CPUs {
		cpus[i] = strconv.Itoa(cpu)
	}
	return "{" + strings.Join(cpus, between) + "}"
}
