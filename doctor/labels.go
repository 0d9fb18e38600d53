package doctor

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
)

// labelled compares what the cluster file says of a node with what the node tells (which-hosts.md 15): sets are made of
// the former, so what is written of another machine puts ranks on the wrong one.
func labelled(c job.Checkup) (found []Finding) {
	warn := func(key, said, tells string) {
		found = append(found, of(c, Warning, "label", fmt.Sprintf("the cluster file says %s %s, the node tells %s", key, said, tells), "see which is right: mpiexec --display topo; correct "+key+" in the cluster file"))
	}
	if speed := whole(c.Said.Attributes[nodeset.ProcSpeed]); speed > 0 && c.Exam.Traits.Quality == job.Nominal && apart(speed, c.Exam.Traits.Speed) {
		warn("procspeed", fmt.Sprint(speed), fmt.Sprint(c.Exam.Traits.Speed))
	}
	if memory, told := whole(c.Said.Attributes[nodeset.Memory]), int(c.Probe.Memory.Installed()>>20); memory > 0 && told > 0 && apart(memory, told) {
		warn("memory", fmt.Sprint(memory), fmt.Sprint(told))
	}
	for _, said := range c.Said.Networks {
		if gone, is := strings.CutPrefix(said, "-"); is && c.Exam.Traits.Networks != nil && !slices.Contains(c.Exam.Traits.Networks, gone) {
			warn("networks", said, strings.Join(c.Exam.Traits.Networks, " "))
		}
	}
	return found
}

// whole is a number of an attribute without its decimals; 0: it is not known.
func whole(v nodeset.Value) int { return int(v.Number / nodeset.Whole(1)) }

// apart reports whether two numbers differ by more than an eighth of the larger one.
func apart(a, b int) bool { return 8*max(a-b, b-a) > max(a, b) }
