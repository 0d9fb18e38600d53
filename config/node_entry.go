package config

import (
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// A nodeEntry is one [[node]] entry, which stands for one node or for several nodes with equal settings. Some
// settings have two keys: mpiexec's own, such as maxproc, and the one of placement.md 1.8, such as processes.
type nodeEntry struct {
	ID      *int
	Name    string
	Aliases []string
	Address string

	RunJobs      any
	Users, User  any
	Groups       any
	Group        any
	MaxProc      any
	Processes    any
	Features     []string
	HWType       []string
	Overbook     any
	Exclusive    any
	CPUMap       []int
	AllowUserMap any
	PinProcs     any
	BindMem      any
	CountThreads any

	ProcSpeed, Memory, Networks, Classes, Attributes, Global, Flavors, Reserve any
}

// globalKeys are the keys at the top level of a cluster file, and nodeKeys those of a [[node]] entry. If a key is
// unknown, the error suggests one of them.
var (
	globalKeys = []string{"PSINodesSort", "queueHost", "queueHosts", "queueRequired", "ledger", "accounting_file", "administrators", "limits", "gang", "class", "node", "nodeset", "nodeAlloc", "domain", "affinity", "region", "NODESETPOLICY", "NODESETATTRIBUTE", "NODESETLIST", "NODESETISOPTIONAL",
		"NODESETTOLERANCE", "NODESETPRIORITYTYPE", "NODESETPLUS", "NODESETDELAY", "NODEALLOCATIONPOLICY"}
	nodeKeys = []string{
		"id", "name", "aliases", "address", "runJobs", "users", "user", "groups", "group", "maxproc", "processes",
		"features", "hwtype", "overbook", "exclusive", "CPUmap", "allowUserMap", "pinProcs", "bindMem", "countThreads",
		"procspeed", "memory", "networks", "classes", "attributes", "global", "flavors", "reserve",
	}
)

// readNodeEntry adds the nodes of the [[node]] entry with index i.
func (r *reader) readNodeEntry(i int, e *nodeEntry) {
	names, ok := r.expandNames(i, "name", e.Name)
	if !ok {
		return
	}
	aliases := make([][]string, len(e.Aliases))
	for k, alias := range e.Aliases {
		if aliases[k], ok = r.expandForNodes(i, "aliases", alias, len(names)); !ok {
			return
		}
	}
	addresses := make([]string, len(names))
	if e.Address != "" {
		if addresses, ok = r.expandForNodes(i, "address", e.Address, len(names)); !ok {
			return
		}
	}
	policy := r.readPolicy(i, e)
	r.readAttributes(i, e, &policy)
	if e.ID != nil {
		r.nextID = *e.ID
	}
	if r.nextID < 0 || r.nextID > 1<<31-1-len(names) {
		r.addFault(r.lines.lineInNode(i, "id"), "id %d is not a valid node ID", r.nextID)
		return
	}
	for k, name := range names {
		def := job.NodeDef{ID: r.nextID, Name: name, Host: name, Address: addresses[k], NodePolicy: policy,
			Origin: fileLine(r.name, r.lines.lineInNode(i, "name"))}
		for _, a := range aliases {
			def.Aliases = append(def.Aliases, a[k])
		}
		r.addNode(i, def)
		r.nextID++
	}
}

// addNode adds a node. It adds an error if another node has the same ID or name.
func (r *reader) addNode(i int, def job.NodeDef) {
	if r.byID == nil {
		r.byID, r.byName = make(map[int]string), make(map[string]bool)
	}
	if other, taken := r.byID[def.ID]; taken {
		r.addFault(r.lines.lineInNode(i, "id"), "node %s has the ID %d, which node %s has, too", def.Name, def.ID, other)
	}
	r.byID[def.ID] = def.Name
	for k, name := range append([]string{def.Name}, def.Aliases...) {
		if r.byName[strings.ToLower(name)] {
			key := "name"
			if k > 0 {
				key = "aliases"
			}
			r.addFault(r.lines.lineInNode(i, key), "the name %s is defined twice", name)
		}
		r.byName[strings.ToLower(name)] = true
	}
	r.entries[def.Name] = i
	r.cluster.Nodes = append(r.cluster.Nodes, def)
}

// expandNames expands names with numbers in brackets, such as "node[01-16]". If the expression is invalid, it adds
// an error and returns false.
func (r *reader) expandNames(i int, key, expr string) ([]string, bool) {
	if expr == "" {
		r.addFault(r.lines.lineInNode(i, key), "a node needs a %s", key)
		return nil, false
	}
	names, err := hostlist.Expand(expr)
	if err != nil {
		r.addFault(r.lines.lineInNode(i, key), "%s: %v", key, err)
		return nil, false
	}
	return names, true
}

// expandForNodes expands an expression such as "node[01-16]", which must expand to one name for each of the entry's
// nodes. If it does not, expandForNodes adds an error and returns false.
func (r *reader) expandForNodes(i int, key, expr string, nodes int) ([]string, bool) {
	names, ok := r.expandNames(i, key, expr)
	if ok && len(names) != nodes {
		r.addFault(r.lines.lineInNode(i, key), "%s: %s lists %d names, but the entry has %d nodes", key, expr, len(names), nodes)
		return nil, false
	}
	return names, ok
}
