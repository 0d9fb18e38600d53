package config

import (
	"path"
	"slices"
	"strings"
)

// ParaStationText is the error message if a file is a configuration file of ParaStation instead of a cluster file. It
// says how to convert the file.
const ParaStationText = "is a parastation.conf, which mpiexec does not read; write a cluster file, with [[node]], name and id for each node; it has the same keys hwtype, runJobs, users, groups, processes, overbook, exclusive, pinProcs, bindMem, CPUmap and allowUserMap, with lists in brackets, and PSINodesSort above the first [[node]]"

// paraStationWords are the words that can begin a line of a parastation.conf.
var paraStationWords = []string{"installdir", "coredir", "hwtype", "hardware", "nodes", "node", "nrofnodes", "masternode", "environment", "env", "psinodessort", "startupscript", "selecttime", "deadinterval", "statustimeout", "rlimit", "runjobs", "loglevel", "logdestination"}

// isParaStation reports whether a file that is not TOML is a parastation.conf. It checks the file's name, and the first
// line that is neither empty nor a comment.
func isParaStation(name, text string) bool {
	if path.Base(name) == "parastation.conf" {
		return true
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		return len(words) > 1 && !strings.Contains(line, "=") && slices.Contains(paraStationWords, strings.ToLower(words[0]))
	}
	return false
}
