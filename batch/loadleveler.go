package batch

import "strings"

// loadLeveler describes LoadLeveler. LoadLeveler writes a file with a host name for each task, or lists the hosts
// in a variable (rm-integration.md 2.7).
var loadLeveler = System{
	Name: "ll", Title: "LoadLeveler",

	Variable: "LOADL_STEP_ID",
	Inside:   func(w Inputs) bool { return w.set("LOADL_STEP_ID") },
	Job:      func(w Inputs) string { return w.value("LOADL_STEP_ID") },
	Hosts:    loadLevelerHosts,

	NoInput: []string{"llspawn"},
}

func loadLevelerHosts(w Inputs, _ Options) (Allocation, error) {
	source, text := w.first("LOADL_HOSTFILE", "LOADL_PROCESSOR_LIST")
	a := Allocation{Source: source}
	var l list
	var err error
	switch {
	case text == "":
		return a, newUnreadError("neither LOADL_HOSTFILE nor LOADL_PROCESSOR_LIST is set")
	case source == "LOADL_HOSTFILE":
		l, err = w.readFile(source, FormNodes)
	default:
		if err = l.addTasks(strings.Fields(text)); err != nil {
			err = listError(source, err)
		}
	}
	if a.Hosts = l.all(); err == nil && len(a.Hosts) == 0 {
		err = newUnreadError(source + " contains no host")
	}
	a.Warnings = w.countWarnings("LOADL_TOTAL_TASKS", source, a.Tasks())
	return a, err
}
