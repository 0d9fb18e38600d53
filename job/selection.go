package job

import (
	"slices"
	"strings"
	"time"

	"remshell/plan/nodeset"
)

// This file has the rules for which nodes a job gets (which-hosts.md), as the cluster file and the user
// set them. RankNeeds has what a single rank needs.

// A NodeSelection is the effective request for nodes, merged from all sources. The zero value treats all nodes alike.
type NodeSelection struct {
	Class      string // of the job; empty: none
	NodeSet    nodeset.Setting
	Balance    bool            // MAXBALANCE: choose the nodes whose speeds differ least
	Affinity   []Affinity      // of the cluster file, in its order; the first one that applies to the job counts
	Regions    []Region        // in the order of the cluster file; nil: no regions
	Domain     []string        // names of the regions in which jobs may run, in order; nil: all
	Reserve    int             // CPUs to leave free on each node, in addition to the node's own Reserve
	Memory     int64           // bytes per rank; 0: not requested
	HugePages  HugePageRequest // whether Memory is to be of huge pages
	Contiguous Contiguity
	MaxDelay   time.Duration // longest time that the site lets any job wait for a node set
}

// A Contiguity says how a run of neighboring nodes is chosen. The empty value means that the nodes need not
// be neighbors.
type Contiguity string

// ContiguousFirst selects the first run of neighboring nodes that fits the job. ContiguousBest selects the run that
// leaves the fewest nodes unused.
const (
	ContiguousFirst Contiguity = "first"
	ContiguousBest  Contiguity = "best"
)

// A HugePageRequest says whether ranks use huge pages (aprun.md 4). If it is empty, nothing was requested.
type HugePageRequest string

// These are the possible requests for huge pages. Ranks find the value in the variable MPIEXEC_HUGEPAGES.
const (
	HugePagesPreferred HugePageRequest = "want" // use them where available; has no effect on the choice of nodes
	HugePagesRequired  HugePageRequest = "need" // required for all memory of the ranks
)

// HugePages contains the numbers of huge pages of a node, for the kernel's default huge page size.
type HugePages struct {
	Probed bool  // the probe looked for them; if false, all other fields are 0
	Size   int64 // bytes per page; 0: the kernel has no huge pages
	Total  int64 // pages in the kernel's pool
	Free   int64 // pages in the pool that no process uses
}

// PagesFor returns how many huge pages are needed for a number of bytes. It returns 0 if the page size is unknown.
func (h HugePages) PagesFor(bytes int64) int64 {
	if h.Size <= 0 {
		return 0
	}
	return (bytes + h.Size - 1) / h.Size
}

// Capacity returns how many ranks fit into the free huge pages if each rank needs the given number of bytes.
// It returns 0 if the page size is unknown.
func (h HugePages) Capacity(bytes int64) int64 {
	if pages := h.PagesFor(bytes); pages > 0 {
		return h.Free / pages
	}
	return 0
}

// ListedNodes returns the names of the nodes that have a host entry. Only these nodes get ranks. A request also
// contains the cluster's other nodes, because the width of gates and the neighbors of a node depend on them.
func (r Request) ListedNodes() map[string]bool {
	listed := make(map[string]bool)
	if r.HostEntries == nil {
		for i := range r.Nodes {
			listed[r.Nodes[i].Name] = true
		}
	}
	for _, i := range r.HostEntries {
		listed[r.Nodes[i].Name] = true
	}
	return listed
}

// SelectionRules are the cluster file's rules that decide which nodes a job gets, except rules for single nodes. The
// zero value contains no rules.
type SelectionRules struct {
	NodeSetDefaults   nodeset.Level // the default node set
	MaxDelay          *string       // longest wait for a node set that a user may request; nil: an hour
	UserSetsForbidden bool          // users may not request node sets
	Classes           []Class
	Affinity          []Affinity
	Regions           []Region // in the order of the file
	Domain            []string // names of regions; nil: all of them
	NodeAlloc         string   // MAXBALANCE, DEFAULT; empty: not set
}

// Access says which users may use a resource, such as a class of jobs. The zero value admits every user.
type Access struct {
	Users, Groups []int // nil: any; empty: only root
}

// Admits reports whether u has access. Root always has access.
func (a Access) Admits(u User) bool { return u.UID == 0 || a.Includes(u) }

// Includes reports whether u is listed. Unlike Admits, it returns false for root if root is not listed.
func (a Access) Includes(u User) bool {
	return (a.Users == nil || slices.Contains(a.Users, u.UID)) && (a.Groups == nil || slices.ContainsFunc(a.Groups, u.InGroup))
}

// A Class is a class of jobs that the cluster file defines.
type Class struct {
	Name string
	Access
	NodeSetDefaults nodeset.Level // the class's default node set
}

// An Affinity says which jobs prefer certain nodes, or avoid them.
type Affinity struct {
	Nodes   []string // names, in any case; nil: those with Feature
	Feature string
	Access
	Classes []string // job classes that it applies to; nil: any
	Value   int      // -1: such jobs should avoid the nodes, 0: neutral, 1: such jobs are preferred there
}

// A Region is a part of the cluster with a gate. The gate decides which jobs may use the region's nodes.
type Region struct {
	Name      string
	Nodes     []string // names, in any case; nil: those with Signature
	Signature string   // flavors in the order os, su, ap
	Gate      Gate
}

// A Gate decides which jobs may use the nodes of a region. The zero value admits all jobs.
type Gate struct {
	Width *int // a job must need more CPUs than this; nil: no rule, AutoWidth: the CPUs of all earlier regions
	Access
	Classes []string // nil: any
}

// AutoWidth is a value of Gate.Width. It stands for the number of CPUs of all regions that come earlier in the domain
// (SelectionRules.Domain).
const AutoWidth = -1

// AllThreads is a value of RankNeeds.HWThreads. It makes every hardware thread count as a CPU.
const AllThreads = -1

// A NodeChoice says which nodes a plan uses, and why they were chosen.
type NodeChoice struct {
	Class         string   // empty: none
	Regions       []string // regions that the job may enter; nil: the cluster has none
	ClosedRegions []Note   // regions that it may not enter: Node is the region, Text the reason
	Contiguous    Contiguity
	ExactPerNode  int        // 0: none
	NodeSet       *SetChoice // nil: no node set was requested
	Groups        []ChosenGroup
}

// A SetChoice says which node sets were considered for a plan and which one was chosen.
type SetChoice struct {
	Request    string // in its canonical form
	From       string // where the request comes from
	Priority   string
	Sets       []ConsideredSet // in the order of their indices
	Chosen     []string        // one set; for ANYOF all sets; one for each part of a spanning request
	WithoutSet bool            // no set fits the job, and it may run without one
}

// A ConsideredSet describes a node set as it was before any nodes were chosen.
type ConsideredSet struct {
	Name     string
	Nodes    int
	Capacity int  // number of the job's ranks that fit without sharing CPUs
	Fits     bool // the whole job fits without sharing CPUs
}

// A ChosenGroup is a placement group: nodes that were chosen together.
type ChosenGroup struct {
	Set   string   // empty: none
	Nodes []string // nodes with ranks, in rank order
	Ranks int
}

// SetName returns the name of the chosen node set, or several names joined by "+". It returns "" if no set was
// chosen or c is nil.
func (c *NodeChoice) SetName() string {
	if c == nil || c.NodeSet == nil {
		return ""
	}
	return strings.Join(c.NodeSet.Chosen, "+")
}

// Attribute returns the node's value of an attribute. name is in upper case. A value in the cluster file
// takes precedence over the value that the node's helper has found.
func (n *Node) Attribute(name string) nodeset.Value {
	given, has := n.Attributes[name]
	switch name {
	case nodeset.Feature:
		return nodeset.Value{Labels: n.Features}
	case nodeset.Class:
		return nodeset.Value{Labels: n.Classes}
	case nodeset.CPUs:
		return nodeset.Value{Number: nodeset.FromInt(int64(n.SlotCount()))}
	case nodeset.GPUs:
		return nodeset.Value{Number: nodeset.FromInt(int64(len(n.GPUs)))}
	case nodeset.Memory:
		if !has {
			has, given.Number = true, nodeset.FromInt(n.Memory.Installed()>>20)
		}
	}
	if has {
		return given
	}
	return n.probedAttribute(name)
}

// Installed estimates the installed memory in bytes. Total is smaller, since the kernel keeps a part of the memory
// for itself. Installed rounds Total up to one of the sizes that memory modules have.
func (m Memory) Installed() int64 {
	mib := m.Total >> 20
	if mib == 0 {
		return 0
	}
	step := int64(1)
	for step<<4 <= mib { // step: an eighth of the next lower power of two
		step <<= 1
	}
	return (mib + step - 1) / step * step << 20
}
