package option

import (
	"fmt"
	"strings"
	"testing"
)

// The scheduler's -l is distinguished from the -l that labels lines (which-hosts.md 4.1).
func TestSchedulerExtension(t *testing.T) {
	of := func(j JobOptions) string {
		return strings.TrimSpace(fmt.Sprintln(j.NodeSet, j.SetOptional, j.SetTolerance, j.SetPriority, j.SetPlus, j.SetDelay, j.Label))
	}
	for line, want := range map[string]string{
		"-l nodeset=ONEOF:FEATURE:ATHLON,OPTERON a":                                                                   "ONEOF:FEATURE:ATHLON,OPTERON",
		"-l NodeSet=ONEOF:PROCSPEED,nodesettolerance=0.5,nodesetdelay=90 -l a":                                        "ONEOF:PROCSPEED  0.5   90 rank",
		"-l nodeset=ANYOF:FEATURE,nodesetisoptional=false,nodesetplus=DELAY,SPANEVENLY,nodesetprioritytype=BESTFIT a": "ANYOF:FEATURE false  BESTFIT DELAY,SPANEVENLY",
		"-l nodeset a":         "rank", // a program of that name
		"-l a":                 "rank",
		"-l nodesetdelay=5m a": "5m",
	} {
		l, err := Mpiexec(linuxSignals).Parse(strings.Fields(line), Sources{})
		if err != nil || strings.Join(strings.Fields(of(l.Job)), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: %s, %v; want %s", line, of(l.Job), err, want)
		}
	}
	for line, want := range map[string]string{
		"-l nodeset=ONEOF:FEATURE,walltime=5 a":            `-l: "walltime" is not an attribute`,
		"-l nodeset=ONEOF:FEATURE --node-set ONEOF:ARCH a": "--node-set ONEOF:ARCH contradicts -l nodeset ONEOF:FEATURE",
		"-l nodeset= a": "-l nodeset: the value is empty",
	} {
		if _, err := Mpiexec(linuxSignals).Parse(strings.Fields(line), Sources{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
