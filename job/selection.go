package job

import (
	"slices"
	"strings"
	"time"

	"remshell/plan/nodeset"
)

// This file has what is said of which nodes a job gets (which-hosts.md): by the cluster's
// configuration, and by users. What one rank needs of a node is in Share.

// A NodeSelection is what counts of all that was said. The zero value: all nodes may be used alike.
type NodeSelection struct {
	Class      string // of the job; empty: none
	NodeSet    nodeset.Setting
	Balance    bool            // MAXBALANCE: of what was chosen, the nodes that differ least in speed
	Affinity   []Affinity      // of the cluster, in its order; the first that is for the job counts
	Regions    []Region        // in the order of the cluster file; nil: it has none
	Domain     []string        // names of those in which jobs run, in their order; nil: all
	Reserve    int             // CPUs of each node that stay free, beside the node's own
	Memory     int64           // bytes for each rank; 0: nothing was said
	HugePages  HugePageRequest // whether they shall be of huge pages
	Contiguous Contiguity
	MaxDelay   time.Duration // the longest delay that the site allows: so long others may insist on a set, too
}

// A Contiguity says how neighbouring nodes are looked for; empty: they need not be neighbours.
type Contiguity string

// The ways: the first run of nodes that holds the job, or the one of which least is left over.
const (
	ContiguousFirst Contiguity = "first"
	ContiguousBest  Contiguity = "best"
)

// A HugePageRequest says what ranks want of huge pages (aprun.md 4); empty: nothing was said.
type HugePageRequest string

// The wishes. They are what ranks find in MPIEXEC_HUGEPAGES.
const (
	HugePagesPreferred HugePageRequest = "want" // where there are some; no node is judged by it
	HugePagesRequired  HugePageRequest = "need" // for all of their memory
)

// HugePages are those of a node, of the size that its kernel has them in unless it is told.
type HugePages struct {
	Probed bool  // somebody has looked; if not, all else is 0
	Size   int64 // bytes of each; 0: the kernel has none
	Total  int64 // pages that are set apart
	Free   int64 // of these, pages that nobody has
}

// PagesFor is how many pages a rank takes that has so many bytes in them. Without a size there is no such number: 0.
func (h HugePages) PagesFor(bytes int64) int64 {
	if h.Size <= 0 {
		return 0
	}
	return (bytes + h.Size - 1) / h.Size
}

// Capacity is how many ranks find so many bytes in free pages.
func (h HugePages) Capacity(bytes int64) int64 {
	if pages := h.PagesFor(bytes); pages > 0 {
		return h.Free / pages
	}
	return 0
}

// ListedNodes tells the nodes of a request that have a turn, by their names. Others are of its cluster, and
// get no ranks: the width of a gate counts their CPUs, and a line has them between others.
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

// SelectionRules are what the cluster's configuration says of which nodes a job gets, beside what it says of
// each node. The zero value: nothing.
type SelectionRules struct {
	NodeSetDefaults   nodeset.Level // its default
	MaxDelay          *string       // the longest delay that a user may have; nil: an hour
	UserSetsForbidden bool          // users may not ask for sets of their own
	Classes           []Class
	Affinity          []Affinity
	Regions           []Region // in the order of the file
	Domain            []string // names of regions; nil: all of them
	NodeAlloc         string   // MAXBALANCE, DEFAULT; empty: not said
}

// Access says who may use something. The zero value: everybody.
type Access struct {
	Users, Groups []int // nil: any; empty: root alone
}

// Admits reports whether a user may. Root always may.
func (a Access) Admits(u User) bool { return u.UID == 0 || a.Includes(u) }

// Includes reports whether a user is one of those that are meant, as root need not be.
func (a Access) Includes(u User) bool {
	return (a.Users == nil || slices.Contains(a.Users, u.UID)) && (a.Groups == nil || slices.ContainsFunc(a.Groups, u.InGroup))
}

// A Class is a kind of jobs.
type Class struct {
	Name string
	Access
	NodeSetDefaults nodeset.Level // its default
}

// An Affinity says how welcome jobs are on some nodes.
type Affinity struct {
	Nodes   []string // names, in any case; nil: those with the feature
	Feature string
	Access
	Classes []string // of the jobs that it is for; nil: any
	Value   int      // -1: they had better go elsewhere, 0, 1: they are welcome
}

// A Region is a part of the cluster that jobs enter through a gate.
type Region struct {
	Name      string
	Nodes     []string // names, in any case; nil: those with the signature
	Signature string   // flavors in the order os, su, ap
	Gate      Gate
}

// A Gate says which jobs may enter. The zero value: all.
type Gate struct {
	Width *int // CPUs of which a job has to need more; nil: none, AutoWidth: those of the regions before
	Access
	Classes []string // nil: any
}

// AutoWidth as Gate.Width stands for the CPUs of all regions of the domain before this one.
const AutoWidth = -1

// AllThreads as Share.HWThreads makes a CPU of every hardware thread.
const AllThreads = -1

// A NodeChoice is which nodes were chosen, and why.
type NodeChoice struct {
	Class         string   // empty: none
	Regions       []string // that the job may enter; nil: there are none
	ClosedRegions []Note   // what it may not, as Node, and why, as Text
	Contiguous    Contiguity
	ExactPerNode  int        // 0: none
	NodeSet       *SetChoice // nil: no set was asked for
	Groups        []ChosenGroup
}

// A SetChoice is which sets there were, and which one was taken.
type SetChoice struct {
	Request    string // in its canonical form
	From       string // what made it
	Priority   string
	Sets       []ConsideredSet // in the order of their indices
	Chosen     []string        // one; all of ANYOF; one for each part that is spanned
	WithoutSet bool            // none held the job, and it may go without
}

// A ConsideredSet is a set as it was before the choice.
type ConsideredSet struct {
	Name     string
	Nodes    int
	Capacity int  // ranks of the job that share no CPU
	Fits     bool // it holds the job, which shares no CPU
}

// A ChosenGroup is nodes that were chosen together.
type ChosenGroup struct {
	Set   string   // empty: none
	Nodes []string // those with ranks, in rank order
	Ranks int
}

// SetName is the name of the set that was chosen, of several all of them: "a+b"; empty: none was.
func (c *NodeChoice) SetName() string {
	if c == nil || c.NodeSet == nil {
		return ""
	}
	return strings.Join(c.NodeSet.Chosen, "+")
}

// Attribute is what a node has of an attribute of nodeset, by its name in upper case: what the
// cluster's configuration says, else what the probe has found.
func (n *Node) Attribute(name string) nodeset.Value {
	said, has := n.Attributes[name]
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
			has, said.Number = true, nodeset.FromInt(n.Memory.Installed()>>20)
		}
	}
	if has {
		return said
	}
	return n.probedAttribute(name)
}

// Installed is how many bytes of memory are built in, as far as the total tells: what the kernel keeps
// to itself differs, and modules come in few sizes.
func (m Memory) Installed() int64 {
	mib := m.Total >> 20
	if mib == 0 {
		return 0
	}
	step := int64(1)
	for step<<4 <= mib { // an eighth of the power of two below
		step <<= 1
	}
	return (mib + step - 1) / step * step << 20
}
