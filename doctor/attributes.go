package doctor

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
)

// checkAttributes compares what the cluster file says of a node with what the node tells (which-hosts.md 15): sets are made of
// the former, so what is written of another machine puts ranks on the wrong one.
func checkAttributes(c job.HostDiagnosis) (found []Finding) {
	warn := func(key, said, tells string) {
		found = append(found, newFinding(c, Warning, "label", fmt.Sprintf("the cluster file says %s %s, the node tells %s", key, said, tells), "see which is right: mpiexec --display topo; correct "+key+" in the cluster file"))
	}
	if speed := wholeNumber(c.ClusterPolicy.Attributes[nodeset.ProcSpeed]); speed > 0 && c.Diagnosis.Attributes.SpeedQuality == job.SpeedNominal && differsMuch(speed, c.Diagnosis.Attributes.Speed) {
		warn("procspeed", fmt.Sprint(speed), fmt.Sprint(c.Diagnosis.Attributes.Speed))
	}
	if memory, told := wholeNumber(c.ClusterPolicy.Attributes[nodeset.Memory]), int(c.Probe.Memory.Installed()>>20); memory > 0 && told > 0 && differsMuch(memory, told) {
		warn("memory", fmt.Sprint(memory), fmt.Sprint(told))
	}
	for _, said := range c.ClusterPolicy.Networks {
		if gone, is := strings.CutPrefix(said, "-"); is && c.Diagnosis.Attributes.Networks != nil && !slices.Contains(c.Diagnosis.Attributes.Networks, gone) {
			warn("networks", said, strings.Join(c.Diagnosis.Attributes.Networks, " "))
		}
	}
	return found
}

// wholeNumber is a number of an attribute without its decimals; 0: it is not known.
func wholeNumber(v nodeset.Value) int { return int(v.Number / nodeset.FromInt(1)) }

// differsMuch reports whether two numbers differ by more than an eighth of the larger one.
func differsMuch(a, b int) bool { return 8*max(a-b, b-a) > max(a, b) }
