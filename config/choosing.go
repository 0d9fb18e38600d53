package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/plan/nodeset"
)

// This file reads what the cluster file says of which nodes a job gets (which-hosts.md 3): beside node
// sets, how welcome jobs are where, and the parts of the cluster with their gates.

// choosing reads all of it, when nodes and classes are known.
func (r *reader) choosing(f *clusterFile) {
	kinds := r.kinds()
	r.clusterSets(f, kinds)
	for _, c := range r.classSaid {
		class := r.cluster.Classes[c.name]
		class.Sets = r.classSets(c.table, c.key, c.line, c.value, kinds)
		r.cluster.Classes[c.name] = class
	}
	r.servesClasses()
	rules := &r.cluster.Rules
	for _, t := range r.tables("affinity", f.Affinity) {
		rules.Affinity = append(rules.Affinity, r.affinity(t))
	}
	for _, t := range r.tables("region", f.Region) {
		rules.Regions = append(rules.Regions, r.region(t))
	}
	r.domain(f)
	r.nodeAlloc(f)
	rules.Classes = r.cluster.classRules()
}

// classRules are the classes as a plan knows them, by name.
func (c *Cluster) classRules() (rules []job.Class) {
	for name, class := range c.Classes {
		rules = append(rules, job.Class{Name: name, Access: job.Access{Users: class.Users, Groups: class.Groups}, Sets: class.Sets})
	}
	slices.SortFunc(rules, func(a, b job.Class) int { return strings.Compare(a.Name, b.Name) })
	return rules
}

// servesClasses tells of classes that nodes serve and that there are not.
func (r *reader) servesClasses() {
	told := make(map[int]bool) // by entry
	for _, n := range r.cluster.Nodes {
		if i := r.entries[n.Name]; !told[i] {
			told[i] = true
			r.knownClasses(r.lines.of(i, "classes"), "classes", n.Classes)
		}
	}
}

// knownClasses tells of those that there are not.
func (r *reader) knownClasses(line int, key string, names []string) {
	for _, name := range names {
		if _, known := r.cluster.Classes[name]; !known {
			r.fault(line, "%s: there is no class %q; %s", key, name, allowed(r.cluster.classRules(), func(c job.Class) string { return c.Name }, "write [[class]] with name = "+strconv.Quote(name)))
		}
	}
}

// allowed lists what there is, or says how to make some.
func allowed[T any](all []T, name func(T) string, write string) string {
	if len(all) == 0 {
		return write
	}
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	return "allowed: " + strings.Join(names, ", ")
}

// access takes who may use something, or is meant by it.
func (t *keyTable) access(users, groups string) job.Access {
	return job.Access{Users: t.members(users, t.r.ids.User), Groups: t.members(groups, t.r.ids.Group)}
}

// classes takes a list of classes that there are; nil: any.
func (t *keyTable) classes(key string) []string {
	names := t.words(key, one)
	if len(names) == 1 && strings.EqualFold(names[0], "any") {
		return nil
	}
	t.r.knownClasses(t.at(key), key, names)
	return names
}

// nodes takes names of nodes that there are; nil: none were said.
func (t *keyTable) nodes(key string) (nodes []string) {
	for _, expr := range t.words(key, one) {
		names, err := hostlist.Expand(expr)
		if err != nil {
			t.fault(key, "%v", err)
		}
		for _, name := range names {
			if !t.r.byName[strings.ToLower(name)] {
				t.fault(key, "there is no node %q", name)
			}
		}
		nodes = append(nodes, names...)
	}
	return nodes
}

var affinityKeys = []string{"nodes", "feature", "users", "groups", "classes", "value"}

// affinity reads one entry.
func (r *reader) affinity(t *keyTable) job.Affinity {
	a := job.Affinity{Nodes: t.nodes("nodes"), Feature: t.text("feature"), Access: t.access("users", "groups"), Classes: t.classes("classes")}
	if (a.Nodes == nil) == (a.Feature == "") {
		t.fault("nodes", "write either nodes or feature, and one of them")
	}
	values := map[string]int{"negative": -1, "none": 0, "positive": 1}
	word := t.text("value")
	value, known := values[strings.ToLower(word)]
	if !known {
		t.fault("value", "%q; allowed: negative, positive, none", word)
	}
	a.Value = value
	t.done(affinityKeys...)
	return a
}

var regionKeys = []string{"name", "signature", "nodes", "gateWidth", "gateUsers", "gateGroups", "gateClasses"}

// region reads one entry.
func (r *reader) region(t *keyTable) job.Region {
	region := job.Region{Name: t.text("name"), Nodes: t.nodes("nodes"), Signature: t.signature(),
		Gate: job.Gate{Access: t.access("gateUsers", "gateGroups"), Classes: t.classes("gateClasses")}}
	if region.Name == "" {
		t.fault("name", "a region needs one")
	} else if slices.ContainsFunc(r.cluster.Rules.Regions, func(other job.Region) bool { return other.Name == region.Name }) {
		t.fault("name", "the region %s is there twice", region.Name)
	}
	if (region.Nodes == nil) == (region.Signature == "") {
		t.fault("signature", "write either signature or nodes, and one of them")
	}
	if text, said := t.scalar("gateWidth"); said {
		width, err := strconv.Atoi(text)
		if region.Gate.Width = &width; strings.EqualFold(text, "auto") {
			width = job.AutoWidth
		} else if err != nil || width < 0 || width > 1<<30 {
			t.fault("gateWidth", "%q is neither a number of CPUs nor \"auto\"", text)
		}
	}
	t.done(regionKeys...)
	return region
}

// signature takes flavors, and brings them into their order; empty: there are none.
func (t *keyTable) signature() string {
	var flavors []string
	for _, word := range strings.Fields(t.text("signature")) {
		flavors = append(flavors, t.r.flavor(t.at("signature"), "signature", word))
	}
	return Signature(flavors)
}

// flavorWords are the flavors in the order that a signature has.
var flavorWords = []string{"os", "su", "ap"}

// flavor is one of them, as it is known.
func (r *reader) flavor(line int, key, word string) string {
	word = strings.ToLower(word)
	if !slices.Contains(flavorWords, word) {
		r.fault(line, "%s: %q is no flavor; allowed: ap, os, su", key, word)
	}
	return word
}

// Signature is the flavors of a node in the order os, su, ap (which-hosts.md 10).
func Signature(flavors []string) string {
	var in []string
	for _, word := range flavorWords {
		if slices.Contains(flavors, word) {
			in = append(in, word)
		}
	}
	return strings.Join(in, " ")
}

// domain reads which regions jobs may be in.
func (r *reader) domain(f *clusterFile) {
	if f.Domain == nil {
		return
	}
	t := &keyTable{r: r, keys: map[string]any{"domain": f.Domain}, line: func(key string) int { return r.lines.global[key] }}
	rules := &r.cluster.Rules
	for _, name := range t.words("domain", strings.Fields) {
		if !slices.ContainsFunc(rules.Regions, func(region job.Region) bool { return region.Name == name }) {
			t.fault("domain", "there is no region %q; %s", name, allowed(rules.Regions, func(r job.Region) string { return r.Name }, "write [[region]] with name = "+strconv.Quote(name)))
		}
		rules.Domain = append(rules.Domain, name)
	}
}

// nodeAlloc reads what is looked for in the nodes that were chosen.
func (r *reader) nodeAlloc(f *clusterFile) {
	const key, other = "nodeAlloc", "NODEALLOCATIONPOLICY"
	t := &keyTable{r: r, keys: map[string]any{"nodealloc": f.NodeAlloc}, line: func(key string) int { return r.lines.global[key] }}
	name := key
	if f.NodeAllocationPolicy != nil {
		if name = other; f.NodeAlloc != nil {
			r.fault(r.lines.global["nodeallocationpolicy"], "%s and %s mean the same; keep one", other, key)
		}
		t.keys = map[string]any{strings.ToLower(other): f.NodeAllocationPolicy}
	}
	if t.keys[strings.ToLower(name)] == nil {
		return
	}
	word := strings.ToUpper(t.text(name))
	if r.cluster.Rules.NodeAlloc = word; word != "" && word != "MAXBALANCE" && word != "DEFAULT" {
		r.fault(r.lines.global[strings.ToLower(name)], "%s: %q; allowed: MAXBALANCE, DEFAULT", name, word)
	}
}

// attributes reads what an entry says of its nodes beside placement.md 1.8 (which-hosts.md 3.1).
func (r *reader) attributes(i int, e *nodeEntry, p *job.Policy) {
	t := &keyTable{r: r, line: func(key string) int { return r.lines.of(i, key) }, keys: map[string]any{
		"procspeed": e.ProcSpeed, "memory": e.Memory, "networks": e.Networks, "classes": e.Classes, "global": e.Global,
		"flavors": e.Flavors, "reserve": e.Reserve}}
	p.Attributes = make(nodeset.Attributes)
	r.local(i, e, p)
	for key, name := range map[string]string{"procspeed": nodeset.ProcSpeed, "memory": nodeset.Memory} {
		if text, said := t.scalar(key); said {
			if n, ok := nodeset.Quantity(name, text); ok && n > 0 {
				p.Attributes[name] = nodeset.Value{Number: n}
			} else {
				t.fault(key, "%q is not a number of %s above 0", text, map[string]string{"procspeed": "MHz", "memory": "MB, nor a text such as \"64G\""}[key])
			}
		}
	}
	for _, word := range t.words("networks", one) {
		if word = strings.ToLower(word); !nodeset.IsLabel(strings.TrimPrefix(word, "-")) {
			t.fault("networks", "%q is no label: letters, digits, _ . + - only, and - before one that is taken away", word)
		}
		p.Networks = append(p.Networks, word)
	}
	if p.Classes = t.words("classes", one); len(p.Classes) == 1 && strings.EqualFold(p.Classes[0], "any") {
		p.Classes = nil
	}
	p.Global = t.yes("global", false)
	for _, word := range t.words("flavors", strings.Fields) {
		p.Flavors = append(p.Flavors, r.flavor(t.at("flavors"), "flavors", word))
	}
	if text, said := t.scalar("reserve"); said {
		n, err := strconv.Atoi(text)
		if p.Reserve = n; err != nil || n < 0 || n > 65536 {
			t.fault("reserve", "%q is not a number of CPUs", text)
		}
	}
	if len(p.Attributes) == 0 {
		p.Attributes = nil
	}
}

// ownKeys are attributes that have a key of their own, or that only a probe finds, and what to write instead.
var ownKeys = map[string]string{
	nodeset.Feature: "write features", nodeset.ProcSpeed: "write procspeed", nodeset.Memory: "write memory", nodeset.Network: "write networks",
	nodeset.Class: "write classes", nodeset.Arch: "the probe finds it", nodeset.CPUModel: "the probe finds it", nodeset.NetSpeed: "the probe finds it",
	nodeset.CPUs: "the probe finds it", nodeset.GPUs: "the probe finds it", nodeset.GPUModel: "the probe finds it",
}

// local reads the attributes that only this cluster has.
func (r *reader) local(i int, e *nodeEntry, p *job.Policy) {
	if e.Attributes == nil {
		return
	}
	t := r.table("attributes", e.Attributes, "attributes = { rack = \"r1\" }")
	if t == nil {
		return
	}
	t.line = func(key string) int {
		if line := r.lines.of(i, "attributes."+key); line != r.lines.of(i, "") {
			return line
		}
		return r.lines.of(i, "attributes")
	}
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		name, number := nodeset.Named(key), t.keys[key]
		if instead, own := ownKeys[name]; own || !nodeset.IsLabel(name) {
			if !own {
				instead = "letters, digits, _ . + - only"
			}
			t.fault("attributes."+key, "cannot be a local attribute; %s", instead)
			continue
		}
		switch number.(type) {
		case int64, float64:
			text, _ := t.scalar(key)
			n, ok := nodeset.ParseNumber(text)
			if !ok {
				t.fault("attributes."+key, "%s %s", text, nodeset.NumberFault(text))
			}
			p.Attributes[name] = nodeset.Value{Number: n}
		default:
			labels := t.words(key, one)
			for _, label := range labels {
				if !nodeset.IsLabel(label) {
					t.fault("attributes."+key, "%q is no label: letters, digits, _ . + - only", label)
				}
			}
			p.Attributes[name] = nodeset.Value{Labels: labels}
		}
	}
}
