package doctor

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
)

// checkAttributes compares the node's attributes in the cluster file with the attributes measured on the node
// (which-hosts.md 15). mpiexec forms node sets from the values in the cluster file, so wrong values there put ranks on
// the wrong nodes.
func checkAttributes(c job.HostDiagnosis) (found []Finding) {
	warn := func(key, configured, measured string) {
		found = append(found, newFinding(c, Warning, "label", fmt.Sprintf("the cluster file sets %s to %s, but the node reports %s", key, configured, measured), "run mpiexec --display topo, and correct "+key+" in the cluster file"))
	}
	if speed := wholeNumber(c.ClusterPolicy.Attributes[nodeset.ProcSpeed]); speed > 0 && c.Diagnosis.Attributes.SpeedQuality == job.SpeedNominal && differsMuch(speed, c.Diagnosis.Attributes.Speed) {
		warn("procspeed", fmt.Sprint(speed), fmt.Sprint(c.Diagnosis.Attributes.Speed))
	}
	if memory, measured := wholeNumber(c.ClusterPolicy.Attributes[nodeset.Memory]), int(c.Probe.Memory.Installed()>>20); memory > 0 && measured > 0 && differsMuch(memory, measured) {
		warn("memory", fmt.Sprint(memory), fmt.Sprint(measured))
	}
	for _, configured := range c.ClusterPolicy.Networks {
		if gone, is := strings.CutPrefix(configured, "-"); is && c.Diagnosis.Attributes.Networks != nil && !slices.Contains(c.Diagnosis.Attributes.Networks, gone) {
			warn("networks", configured, strings.Join(c.Diagnosis.Attributes.Networks, " "))
		}
	}
	return found
}

// wholeNumber returns the integer part of an attribute's number. It returns 0 if the number is unknown.
func wholeNumber(v nodeset.Value) int { return int(v.Number / nodeset.FromInt(1)) }

// differsMuch reports whether two numbers differ by more than an eighth of the larger one.
func differsMuch(a, b int) bool { return 8*max(a-b, b-a) > max(a, b) }
