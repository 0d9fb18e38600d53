package alloc

import (
	"cmp"
	"strings"
)

// HTCondor starts a job of its parallel universe once for each of its nodes; they tell each other
// where they are by a file (rm-integration.md 2.8).
var condor = manager{
	name:  "condor",
	needs: "_CONDOR_PROCNO",
	inside: func(w World) bool {
		return w.set("_CONDOR_PROCNO") && w.set("_CONDOR_NPROCS") || w.set("_CONDOR_JOB_AD")
	},
	job:  condorJob,
	read: condorRead,
}

// condorRead reads the contact file on the node that starts the job, the first of them.
func condorRead(w World, _ Wish) (Allocation, error) {
	if node, ok := number(w.value("_CONDOR_PROCNO")); ok && node > 0 && w.count("_CONDOR_NPROCS") > 1 {
		return Allocation{Source: "_CONDOR_PROCNO", Idle: true}, nil
	}
	source, file := w.first("MACHINE_FILE", "_CONDOR_SCRATCH_DIR")
	if source == "_CONDOR_SCRATCH_DIR" {
		file += "/contact"
	}
	a := Allocation{Source: source}
	if !w.set(source) {
		return a, unread("neither MACHINE_FILE nor _CONDOR_SCRATCH_DIR is set")
	}
	var l list
	missing, wrong := w.lines(source, file, l.counted(false))
	a.Hosts = l.all()
	return a, gave(missing, wrong)
}

// condorJob is ClusterId.ProcId of the description of the job.
func condorJob(w World) string {
	ids := make(map[string]string)
	if file := w.value("_CONDOR_JOB_AD"); file != "" {
		w.lines("_CONDOR_JOB_AD", file, func(_ int, words []string) error {
			name := strings.ToLower(words[0])
			if (name == "clusterid" || name == "procid") && len(words) == 3 && words[1] == "=" {
				if _, ok := number(words[2]); ok {
					ids[name] = words[2]
				}
			}
			return nil
		})
	}
	if ids["clusterid"] == "" {
		return ""
	}
	return ids["clusterid"] + "." + cmp.Or(ids["procid"], "0")
}
