package config

import (
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// A nodeEntry is one [[node]]: one node, or several that are alike. The names in
// placement.md 1.8 that differ from ours are understood too.
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

// The keys, as messages propose them.
var (
	globalKeys = []string{"PSINodesSort", "queueHost", "queueHosts", "queueRequired", "ledger", "accounting_file", "administrators", "limits", "class", "node", "nodeset", "nodeAlloc", "domain", "affinity", "region", "NODESETPOLICY", "NODESETATTRIBUTE", "NODESETLIST", "NODESETISOPTIONAL",
		"NODESETTOLERANCE", "NODESETPRIORITYTYPE", "NODESETPLUS", "NODESETDELAY", "NODEALLOCATIONPOLICY"}
	nodeKeys = []string{
		"id", "name", "aliases", "address", "runJobs", "users", "user", "groups", "group", "maxproc", "processes",
		"features", "hwtype", "overbook", "exclusive", "CPUmap", "allowUserMap", "pinProcs", "bindMem", "countThreads",
		"procspeed", "memory", "networks", "classes", "attributes", "global", "flavors", "reserve",
	}
)

// entry adds the nodes of one entry.
func (r *reader) entry(i int, e *nodeEntry) {
	names, ok := r.expand(i, "name", e.Name)
	if !ok {
		return
	}
	aliases := make([][]string, len(e.Aliases))
	for k, alias := range e.Aliases {
		if aliases[k], ok = r.alike(i, "aliases", alias, len(names)); !ok {
			return
		}
	}
	addresses := make([]string, len(names))
	if e.Address != "" {
		if addresses, ok = r.alike(i, "address", e.Address, len(names)); !ok {
			return
		}
	}
	policy := r.policy(i, e)
	r.attributes(i, e, &policy)
	if e.ID != nil {
		r.next = *e.ID
	}
	if r.next < 0 || r.next > 1<<31-1-len(names) {
		r.fault(r.lines.of(i, "id"), "id %d cannot be", r.next)
		return
	}
	for k, name := range names {
		def := job.NodeDef{ID: r.next, Name: name, Host: name, Address: addresses[k], Policy: policy,
			Origin: where(r.name, r.lines.of(i, "name"))}
		for _, a := range aliases {
			def.Aliases = append(def.Aliases, a[k])
		}
		r.add(i, def)
		r.next++
	}
}

// add adds a node, whose ID and names nobody else may have.
func (r *reader) add(i int, def job.NodeDef) {
	if r.byID == nil {
		r.byID, r.byName = make(map[int]string), make(map[string]bool)
	}
	if other, taken := r.byID[def.ID]; taken {
		r.fault(r.lines.of(i, "id"), "node %s has the ID %d, which is that of %s", def.Name, def.ID, other)
	}
	r.byID[def.ID] = def.Name
	for k, name := range append([]string{def.Name}, def.Aliases...) {
		if r.byName[strings.ToLower(name)] {
			key := "name"
			if k > 0 {
				key = "aliases"
			}
			r.fault(r.lines.of(i, key), "the name %s is there twice", name)
		}
		r.byName[strings.ToLower(name)] = true
	}
	r.entries[def.Name] = i
	r.cluster.Nodes = append(r.cluster.Nodes, def)
}

// expand reads names in brackets, "node[01-16]".
func (r *reader) expand(i int, key, expr string) ([]string, bool) {
	if expr == "" {
		r.fault(r.lines.of(i, key), "a node needs a %s", key)
		return nil, false
	}
	names, err := hostlist.Expand(expr)
	if err != nil {
		r.fault(r.lines.of(i, key), "%s: %v", key, err)
		return nil, false
	}
	return names, true
}

// alike expands what must be as many as there are nodes.
func (r *reader) alike(i int, key, expr string, nodes int) ([]string, bool) {
	names, ok := r.expand(i, key, expr)
	if ok && len(names) != nodes {
		r.fault(r.lines.of(i, key), "%s: %s stands for %d, but the entry has %d nodes", key, expr, len(names), nodes)
		return nil, false
	}
	return names, ok
}
