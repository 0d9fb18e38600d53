/*
Package region says which parts of a cluster a job may enter (which-hosts.md 10).

	regions of the file       main: n0-n3     overflow: h0, h1     lab: x0
	domain, in its order      main        ->  overflow             (not of it)
	gates                     none            more than 32 CPUs

A node is in the first region of the file that takes it. Regions of the domain order the nodes, and
those whose gate is closed to a job are left out. All of it is pure.
*/
package region

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
	"remshell/text"
)

// OutsideDomain is the number of the region of a node that is in none of the domain.
const OutsideDomain = -1

// flavors are the words of a signature, in its order.
var flavors = []string{"os", "su", "ap"}

// Signature is the flavors of a node in their order; a node of which nothing was said is for
// applications alone.
func Signature(of []string) string {
	if of == nil {
		return "ap"
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(flavors), func(f string) bool { return !slices.Contains(of, f) }), " ")
}

// RunsRanks reports whether a node of some flavors runs ranks.
func RunsRanks(of []string) bool { return of == nil || slices.Contains(of, "ap") }

// A Domain is the regions in which jobs run. The zero value: the cluster has none.
type Domain struct {
	regions           []job.Region   // in the order of the domain
	names             []string       // of all regions, in the order of the file
	numberOf          map[string]int // in the domain, by name
	regionOfNode      map[string]int // in the file, by a node's name in lower case
	regionOfSignature map[string]int // in the file, by signature
}

// New is the domain of some regions, in the order of their file; names: of those it has, in its
// order; nil: all.
func New(regions []job.Region, names []string) Domain {
	d := Domain{numberOf: make(map[string]int), regionOfNode: make(map[string]int), regionOfSignature: make(map[string]int)}
	for i, r := range regions {
		d.names = append(d.names, r.Name)
		if r.Nodes == nil {
			setFirst(d.regionOfSignature, Signature(strings.Fields(r.Signature)), i)
		}
		for _, name := range r.Nodes {
			setFirst(d.regionOfNode, strings.ToLower(name), i)
		}
	}
	if names == nil {
		names = d.names
	}
	for _, name := range names {
		if i := slices.Index(d.names, name); i >= 0 {
			d.numberOf[name] = len(d.regions)
			d.regions = append(d.regions, regions[i])
		}
	}
	return d
}

// setFirst keeps the first number for a key.
func setFirst(numbers map[string]int, key string, number int) {
	if _, known := numbers[key]; !known {
		numbers[key] = number
	}
}

// HasRegions reports whether there are regions at all.
func (d Domain) HasRegions() bool { return d.names != nil }

// RegionOf is the number of a node's region in the domain, or Outside, and its name; empty: it is in none.
func (d Domain) RegionOf(n *job.NodeDef) (number int, name string) {
	first, found := d.regionOfSignature[Signature(n.Flavors)]
	for _, name := range append([]string{n.Name}, n.Aliases...) {
		if i, named := d.regionOfNode[strings.ToLower(name)]; named && (!found || i < first) {
			first, found = i, true
		}
	}
	if !found {
		return OutsideDomain, ""
	}
	name = d.names[first]
	number, within := d.numberOf[name]
	if !within {
		return OutsideDomain, name
	}
	return number, name
}

// Names are the regions of the domain.
func (d Domain) Names() []string {
	var names []string
	for _, r := range d.regions {
		names = append(names, r.Name)
	}
	return names
}

// A GateRequest is what gates want to know of a job.
type GateRequest struct {
	User  job.User
	Class string // empty: none
	CPUs  int    // of all its ranks; 0: it takes what there is
}

// A Size is the number of CPUs of some regions.
type Size struct {
	CPUs    int
	Unknown bool // there may be more: some node's size is not known
}

// A Verdict is whether a job may enter a region.
type Verdict struct {
	ClosedReason string // why not; empty: it may
	MayOpenLater bool   // if all sizes were known, it might
}

// JudgeGates judges every region of the domain, whose sizes are given in its order.
func (d Domain) JudgeGates(v GateRequest, sizes []Size) []Verdict {
	verdicts := make([]Verdict, len(d.regions))
	var before Size
	for i := range d.regions {
		verdicts[i] = judgeGate(&d.regions[i], v, before)
		before.CPUs += sizes[i].CPUs
		before.Unknown = before.Unknown || sizes[i].Unknown
	}
	return verdicts
}

// judgeGate asks one gate; before is the size of the regions before it.
func judgeGate(r *job.Region, v GateRequest, before Size) Verdict {
	g := r.Gate
	switch {
	case !g.Admits(v.User):
		return Verdict{ClosedReason: r.Name + ": for other users"}
	case g.Classes != nil && !slices.Contains(g.Classes, v.Class):
		return Verdict{ClosedReason: fmt.Sprintf("%s: for jobs of class %s", r.Name, strings.Join(g.Classes, ", "))}
	case g.Width == nil:
		return Verdict{}
	case *g.Width == job.AutoWidth && before.Unknown:
		return Verdict{ClosedReason: r.Name + ": for jobs that the regions before it cannot hold, and the size of a node there is not known", MayOpenLater: true}
	}
	width := *g.Width
	if width == job.AutoWidth {
		width = before.CPUs
	}
	if v.CPUs > width {
		return Verdict{}
	}
	has := fmt.Sprintf("this one has %d", v.CPUs)
	if v.CPUs == 0 {
		has = "of this one the number of ranks was not said"
	}
	return Verdict{ClosedReason: fmt.Sprintf("%s: for jobs of more than %s; %s", r.Name, text.Count(width, "CPU"), has)}
}

// JudgeWithoutSizes judges a region before anything is known of sizes: Unsure gates may turn out to be open.
func (d Domain) JudgeWithoutSizes(v GateRequest) []Verdict {
	sizes := make([]Size, len(d.regions))
	for i := range sizes {
		sizes[i].Unknown = true
	}
	return d.JudgeGates(v, sizes)
}

// NeedsSize reports whether the size of a region matters: a gate behind it opens to jobs that are
// larger than what is before it.
func (d Domain) NeedsSize(number int) bool {
	return number >= 0 && slices.ContainsFunc(d.regions[number+1:], func(r job.Region) bool {
		return r.Gate.Width != nil && *r.Gate.Width == job.AutoWidth
	})
}
