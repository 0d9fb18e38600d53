package job

import (
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/plan/nodeset"
)

// Attributes are properties by which nodes are grouped into node sets. A helper finds their values on the node
// (which-hosts.md 2.1), and the cluster file may override them. A zero field means unknown.
type Attributes struct {
	Speed        int          // clock rate of the slowest CPU that the helper may use, in MHz
	SpeedQuality SpeedQuality // how Speed was found; empty if Speed is unknown
	Networks     []string     // labels of the networks that are up, ascending, in lower case
	NetSpeed     int          // rate of the fastest of these, in Mb/s
	CPUModel     string       // a label in lower case
	GPUModels    []string     // a label for each model of GPU that the helper may use, ascending
}

// A SpeedQuality says how the speed of a node's CPUs was found (which-hosts.md 2.1). Speeds that were found in
// different ways cannot be compared.
type SpeedQuality string

const (
	SpeedGiven    SpeedQuality = "given"    // set in the cluster file
	SpeedNominal  SpeedQuality = "nominal"  // sustained under full load on all cores
	SpeedTurbo    SpeedQuality = "max"      // the peak of a single core
	SpeedMeasured SpeedQuality = "measured" // the kernel's reading at the time of the probe
)

// SpeedQualities lists the qualities of a CPU speed that a helper can report. It does not contain SpeedGiven,
// which is for a speed from the cluster file.
var SpeedQualities = []SpeedQuality{SpeedNominal, SpeedTurbo, SpeedMeasured}

// IsValidProbe reports whether t is a possible result of a probe. The networks and the CPU and GPU models must be
// lower-case labels. A known speed must have one of the SpeedQualities, and an unknown speed none.
func (t Attributes) IsValidProbe() bool {
	bad := func(label string) bool { return !IsLabel(label) || label != strings.ToLower(label) }
	return (t.CPUModel == "" || !bad(t.CPUModel)) && !slices.ContainsFunc(t.Networks, bad) && !slices.ContainsFunc(t.GPUModels, bad) &&
		(t.Speed > 0) == slices.Contains(SpeedQualities, t.SpeedQuality) && (t.Speed > 0 || t.SpeedQuality == "")
}

// SpeedQuality returns how the effective speed of the node was found. It returns "" if the speed is unknown.
func (n *Node) SpeedQuality() SpeedQuality {
	if _, given := n.Attributes[nodeset.ProcSpeed]; given {
		return SpeedGiven
	}
	return n.ProbedAttributes.SpeedQuality
}

// probedAttribute returns the value that the node's helper has found for an attribute. name is in upper case. The
// cluster file may have changed the networks. The zero Value means unknown.
func (n *Node) probedAttribute(name string) nodeset.Value {
	switch name {
	case nodeset.ProcSpeed:
		return nodeset.Value{Number: nodeset.FromInt(int64(n.ProbedAttributes.Speed))}
	case nodeset.NetSpeed:
		return nodeset.Value{Number: nodeset.FromInt(int64(n.ProbedAttributes.NetSpeed))}
	case nodeset.Network:
		return nodeset.Value{Labels: n.allNetworks()}
	case nodeset.GPUModel:
		return nodeset.Value{Labels: n.ProbedAttributes.GPUModels}
	case nodeset.CPUModel:
		return labelValue(n.ProbedAttributes.CPUModel)
	case nodeset.Arch:
		return labelValue(UnameMachine(n.Arch))
	}
	return nodeset.Value{}
}

// HasProbedFeature reports whether the node has a network with this label, or a GPU of this vendor. It considers
// the GPUs that the helper has found, and the networks after changes by the cluster file.
func (n *Node) HasProbedFeature(feature string) bool {
	return slices.Contains(n.allNetworks(), feature) || slices.ContainsFunc(n.GPUs, func(g gpu.GPU) bool { return string(g.Vendor) == feature })
}

// allNetworks returns the node's networks in ascending order. These are the networks that the helper has found and
// those that the cluster file adds, except those that the cluster file removes.
func (n *Node) allNetworks() []string {
	if n.Networks == nil {
		return n.ProbedAttributes.Networks
	}
	all := slices.Clone(n.ProbedAttributes.Networks)
	for _, network := range n.Networks {
		if removed, is := strings.CutPrefix(network, "-"); is {
			all = slices.DeleteFunc(all, func(name string) bool { return strings.EqualFold(name, removed) })
		} else if !slices.Contains(all, network) {
			all = append(all, network)
		}
	}
	slices.Sort(all)
	return all
}

// labelValue returns an attribute value whose only label is text. If text is empty, it returns the zero Value, which
// means unknown.
func labelValue(text string) nodeset.Value {
	if text == "" {
		return nodeset.Value{}
	}
	return nodeset.Value{Labels: []string{text}}
}

// MaxLabel is the maximum length in bytes of a node's label. MaxLabels is the maximum number of labels of one kind
// on a node.
const (
	MaxLabel  = 64
	MaxLabels = 64
)

// IsLabel reports whether text is a valid label of a node (which-hosts.md 5). Wildcards are not allowed.
func IsLabel(text string) bool {
	return text != "" && len(text) <= MaxLabel && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") == ""
}

// UnameMachine converts an architecture name of Go (GOARCH) to the name that uname -m prints, such as "amd64"
// to "x86_64". It returns an unknown name unchanged.
func UnameMachine(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	case "386":
		return "i686"
	}
	return arch
}
