//go:build linux

package rank

import (
	"strconv"
	"strings"

	"remshell/job"
)

// maxPlacesBytes is how many bytes of places a rank is told. The kernel takes 128 KiB in one variable.
const maxPlacesBytes = 64 << 10

// withOpenMPPlaces adds to a rank's environment on which of its CPUs the threads of OpenMP run (aprun.md 3), each variable only
// where the user has not set it. A rank that is not bound is told nothing. What is added counts as suggested: a launch
// from inside the rank has other CPUs.
func (id Identity) withOpenMPPlaces(env []string) []string {
	text := id.ompPlaces()
	if text == "" || len(text) > maxPlacesBytes {
		return env
	}
	var added []string
	for _, assignment := range []string{"OMP_PLACES=" + text, "OMP_PROC_BIND=close"} {
		name, _, _ := strings.Cut(assignment, "=")
		if _, there := job.LookupEnv(env, name); !there {
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

// ompPlaces are the CPUs of a rank as OMP_PLACES has them: each a place of its own, {0},{1}, or all of them one, {0,1}.
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
