package job

import (
	"slices"
	"strings"

	"remshell/plan/nodeset"
)

// Attributes are what a node's own files tell of it by which sets of nodes are made
// (which-hosts.md 2.1). What the cluster file says beats them. The zero value of each is unknown.
type Attributes struct {
	Speed        int          // of the slowest CPU that the helper may use, in MHz
	SpeedQuality SpeedQuality // what Speed is; empty: it is unknown
	Networks     []string     // labels of the networks that are up, ascending, in lower case
	NetSpeed     int          // of the fastest of these, in Mb/s
	CPUModel     string       // a label in lower case
	GPUModels    []string     // of the GPUs that the helper may use, a label for each model, ascending
}

// A SpeedQuality says by which of the rules of which-hosts.md 2.1 the speed of a CPU was found, since
// speeds that were found in different ways do not compare.
type SpeedQuality string

const (
	SpeedGiven    SpeedQuality = "given"    // the cluster file says it
	SpeedNominal  SpeedQuality = "nominal"  // what the processor keeps up under full load, on all cores
	SpeedTurbo    SpeedQuality = "max"      // what one core reaches at best
	SpeedMeasured SpeedQuality = "measured" // what the kernel saw at that moment
)

// SpeedQualities are those that a probe finds.
var SpeedQualities = []SpeedQuality{SpeedNominal, SpeedTurbo, SpeedMeasured}

// IsValidProbe reports whether these can be what a probe has found: all words are labels in lower case, and a speed
// has its quality.
func (t Attributes) IsValidProbe() bool {
	bad := func(label string) bool { return !IsLabel(label) || label != strings.ToLower(label) }
	return (t.CPUModel == "" || !bad(t.CPUModel)) && !slices.ContainsFunc(t.Networks, bad) && !slices.ContainsFunc(t.GPUModels, bad) &&
		(t.Speed > 0) == slices.Contains(SpeedQualities, t.SpeedQuality) && (t.Speed > 0 || t.SpeedQuality == "")
}

// SpeedQuality says how the speed that counts was found; empty: there is none.
func (n *Node) SpeedQuality() SpeedQuality {
	if _, said := n.Attributes[nodeset.ProcSpeed]; said {
		return SpeedGiven
	}
	return n.ProbedAttributes.SpeedQuality
}

// probedAttribute is what the node's probe has found of an attribute, by its name in upper case.
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

// allNetworks are those of the probe, with what the cluster file adds and takes away.
func (n *Node) allNetworks() []string {
	if n.Networks == nil {
		return n.ProbedAttributes.Networks
	}
	all := slices.Clone(n.ProbedAttributes.Networks)
	for _, said := range n.Networks {
		if gone, is := strings.CutPrefix(said, "-"); is {
			all = slices.DeleteFunc(all, func(name string) bool { return strings.EqualFold(name, gone) })
		} else if !slices.Contains(all, said) {
			all = append(all, said)
		}
	}
	slices.Sort(all)
	return all
}

// labelValue is the value of one label; empty: unknown.
func labelValue(text string) nodeset.Value {
	if text == "" {
		return nodeset.Value{}
	}
	return nodeset.Value{Labels: []string{text}}
}

// MaxLabel is how long a label of a node may be, in bytes, and MaxLabels how many of a kind it may have.
const (
	MaxLabel  = 64
	MaxLabels = 64
)

// IsLabel reports whether a text can be a label of a node (which-hosts.md 5, without the signs of a pattern).
func IsLabel(text string) bool {
	return text != "" && len(text) <= MaxLabel && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") == ""
}

// UnameMachine is the architecture as uname(1) calls it, of a word of GOARCH.
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
