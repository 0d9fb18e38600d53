package batch

import (
	"fmt"
	"strings"
)

// cobalt describes Cobalt. Cobalt writes a file with host names, or names a partition of a Cray (rm-integration.md
// 2.6).
var cobalt = System{
	Name: "cobalt", Title: "Cobalt",

	Variable: "COBALT_JOBID",
	Inside:   func(w Inputs) bool { return w.set("COBALT_JOBID") },
	Job:      func(w Inputs) string { return w.value("COBALT_JOBID") },
	Hosts:    cobaltHosts,
}

// cobaltHosts returns the hosts of a Cobalt job. If the list repeats any name, each host has as many tasks as its name
// has occurrences. If all names differ, each host has as many tasks as it has CPUs.
func cobaltHosts(w Inputs, _ Options) (Allocation, error) {
	source, text := w.first("COBALT_NODEFILE", "COBALT_PARTNAME")
	a := Allocation{Source: source, End: w.end("COBALT_ENDTIME")}
	var l list
	var err error
	switch {
	case text == "":
		return a, newUnreadError("neither COBALT_NODEFILE nor COBALT_PARTNAME is set")
	case source == "COBALT_NODEFILE":
		missing, wrong := w.readLines(source, text, func(number int, words []string) error {
			for _, word := range words {
				if err := l.add(Host{Name: word, Tasks: 1, Line: number}); err != nil {
					return err
				}
			}
			return nil
		})
		err = linesError(missing, wrong)
	default:
		if err = l.addPart(text); err != nil {
			err = listError(source, err)
		}
	}
	a.Hosts = l.all()
	if a.Tasks() == len(a.Hosts) {
		a.TasksUnknown = true
		for i := range a.Hosts {
			a.Hosts[i].Tasks = 0
		}
	}
	return a, err
}

// addPart adds the hosts of a Cobalt partition. text contains host names separated by colons, or the node numbers of a
// Cray, such as "1-3,7".
func (l *list) addPart(text string) error {
	if strings.Trim(text, "0123456789,-") != "" {
		return l.addTasks(strings.Split(text, ":"))
	}
	numbers, err := ranges(text, maxHosts)
	if err != nil {
		return err
	}
	for _, digits := range numbers {
		n, _ := number(digits)
		if err := l.add(Host{Name: fmt.Sprintf("nid%05d", n), Tasks: 1}); err != nil {
			return err
		}
	}
	return nil
}
