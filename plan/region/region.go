/*
Package region decides which regions of a cluster a job may use (which-hosts.md 10). A region is a part of
a cluster that the cluster file defines. A gate is a condition that jobs must meet to use a region, such as
needing more than 32 CPUs.

	regions in the cluster file   main: n0-n3     overflow: h0, h1     lab: x0
	domain                        main        ->  overflow             (not in the domain)
	gates                         none            more than 32 CPUs

The domain is the ordered list of the regions in which jobs run. Nodes are used in the order of their regions. If
several regions of the cluster file match a node, the node belongs to the first of these regions. A job may not use
the nodes of a region whose gate it does not meet. All functions are pure.
*/
package region

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
	"remshell/text"
)

// OutsideDomain is the region number of a node that belongs to no region of the domain.
const OutsideDomain = -1

// flavors lists the flavors that a node may have, in the order in which Signature lists them: operating system
// (os), support (su), applications (ap).
var flavors = []string{"os", "su", "ap"}

// Signature returns the flavors of a node as one string, in the order os, su, ap. If the node has no flavors, it
// returns "ap".
func Signature(nodeFlavors []string) string {
	if nodeFlavors == nil {
		return "ap"
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(flavors), func(f string) bool { return !slices.Contains(nodeFlavors, f) }), " ")
}

// RunsRanks reports whether a node with these flavors may run ranks. It returns true if the node has the flavor
// "ap" or no flavors at all.
func RunsRanks(flavors []string) bool { return flavors == nil || slices.Contains(flavors, "ap") }

// A Domain is the ordered list of the regions of a cluster in which jobs run. The zero value means that the cluster has
// no regions.
type Domain struct {
	regions           []job.Region   // in the order of the domain
	names             []string       // of all regions, in the order of the file
	numberOf          map[string]int // number in the domain, by name
	regionOfNode      map[string]int // index in the file, by a node's name in lower case
	regionOfSignature map[string]int // index in the file, by signature
}

// New returns the domain of a cluster. regions lists all regions in the order of the cluster file. names lists the
// regions in which jobs run, and gives the domain its order. If names is nil, jobs run in all regions.
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

// setFirst stores a number for a key, unless the key already has one.
func setFirst(numbers map[string]int, key string, number int) {
	if _, known := numbers[key]; !known {
		numbers[key] = number
	}
}

// HasRegions reports whether the cluster has regions.
func (d Domain) HasRegions() bool { return d.names != nil }

// RegionOf returns the number of a node's region in the domain, and the region's name. number is OutsideDomain if
// the domain does not contain the region. name is "" if the node is in no region.
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

// Names returns the names of the regions of the domain.
func (d Domain) Names() []string {
	var names []string
	for _, r := range d.regions {
		names = append(names, r.Name)
	}
	return names
}

// A GateRequest contains the properties of a job that gates check. A gate is a condition that a job must meet to
// use a region.
type GateRequest struct {
	User  job.User
	Class string // empty if it has none
	CPUs  int    // CPUs of all ranks; 0 if the number of ranks is not known
}

// A Size is the number of CPUs of one or more regions.
type Size struct {
	CPUs    int
	Unknown bool // there may be more: the size of some node is not known
}

// A Verdict says whether a job may use the nodes of a region.
type Verdict struct {
	ClosedReason string // why not, as a predicate of the region; empty if it may
	MayOpenLater bool   // it might be allowed if all sizes were known
}

// JudgeGates decides, for each region of the domain, whether a job may use it. sizes contains the number of CPUs of
// each region, in the order of the domain.
func (d Domain) JudgeGates(request GateRequest, sizes []Size) []Verdict {
	verdicts := make([]Verdict, len(d.regions))
	var before Size
	for i := range d.regions {
		verdicts[i] = judgeGate(&d.regions[i], request, before)
		before.CPUs += sizes[i].CPUs
		before.Unknown = before.Unknown || sizes[i].Unknown
	}
	return verdicts
}

// judgeGate decides whether a job meets the condition (gate) of one region. precedingSize is the total size
// of the regions before it.
func judgeGate(r *job.Region, request GateRequest, precedingSize Size) Verdict {
	g := r.Gate
	switch {
	case !g.Admits(request.User):
		return Verdict{ClosedReason: "is for other users"}
	case g.Classes != nil && !slices.Contains(g.Classes, request.Class):
		return Verdict{ClosedReason: fmt.Sprintf("is for jobs of class %s", strings.Join(g.Classes, ", "))}
	case g.Width == nil:
		return Verdict{}
	case *g.Width == job.AutoWidth && precedingSize.Unknown:
		return Verdict{ClosedReason: "is for jobs that do not fit into the regions before it, but mpiexec does not know the number of CPUs in these regions", MayOpenLater: true}
	}
	width := *g.Width
	if width == job.AutoWidth {
		width = precedingSize.CPUs
	}
	if request.CPUs > width {
		return Verdict{}
	}
	size := "this job needs " + text.Count(request.CPUs, "CPU")
	if request.CPUs == 0 {
		size = "the size of this job is not known without -n"
	}
	return Verdict{ClosedReason: fmt.Sprintf("is for jobs of more than %s, but %s", text.Count(width, "CPU"), size)}
}

// JudgeWithoutSizes decides which regions a job may use while the sizes of the regions are unknown. A Verdict with
// MayOpenLater may change when they are known.
func (d Domain) JudgeWithoutSizes(request GateRequest) []Verdict {
	sizes := make([]Size, len(d.regions))
	for i := range sizes {
		sizes[i].Unknown = true
	}
	return d.JudgeGates(request, sizes)
}

// NeedsSize reports whether the number of CPUs of a region must be known. It must be known if a later region only
// accepts jobs that are larger than all regions before it.
func (d Domain) NeedsSize(number int) bool {
	return number >= 0 && slices.ContainsFunc(d.regions[number+1:], func(r job.Region) bool {
		return r.Gate.Width != nil && *r.Gate.Width == job.AutoWidth
	})
}
