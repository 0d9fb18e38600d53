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

// This file reads the rules that select the nodes of a job (which-hosts.md 3): node sets, affinities, regions and
// their gates.

// readSelectionRules reads the rules by which nodes are chosen: classes, node sets, affinities and regions. It must
// be called after the nodes and classes have been read.
func (r *reader) readSelectionRules(f *clusterFile) {
	kinds := r.attributeKinds()
	r.readClusterSets(f, kinds)
	for _, c := range r.pendingSets {
		class := r.cluster.Classes[c.name]
		class.NodeSetDefaults = r.readClassSets(c.table, c.key, c.line, c.value, kinds)
		r.cluster.Classes[c.name] = class
	}
	r.checkServedClasses()
	rules := &r.cluster.Rules
	for _, t := range r.openTables("affinity", f.Affinity) {
		rules.Affinity = append(rules.Affinity, r.readAffinity(t))
	}
	for _, t := range r.openTables("region", f.Region) {
		rules.Regions = append(rules.Regions, r.readRegion(t))
	}
	r.readDomain(f)
	r.readNodeAlloc(f)
	rules.Classes = r.cluster.jobClasses()
}

// jobClasses returns the classes as job.Class, sorted by name.
func (c *Cluster) jobClasses() (rules []job.Class) {
	for name, class := range c.Classes {
		rules = append(rules, job.Class{Name: name, Access: job.Access{Users: class.Users, Groups: class.Groups}, NodeSetDefaults: class.NodeSetDefaults})
	}
	slices.SortFunc(rules, func(a, b job.Class) int { return strings.Compare(a.Name, b.Name) })
	return rules
}

// checkServedClasses adds an error for each class that a node serves but that is not defined.
func (r *reader) checkServedClasses() {
	checked := make(map[int]bool) // by entry
	for _, n := range r.cluster.Nodes {
		if i := r.entries[n.Name]; !checked[i] {
			checked[i] = true
			r.checkClasses(r.lines.lineInNode(i, "classes"), "classes", n.Classes)
		}
	}
}

// checkClasses adds an error for each element of names that is not the name of a class.
func (r *reader) checkClasses(line int, key string, names []string) {
	for _, name := range names {
		if _, known := r.cluster.Classes[name]; !known {
			r.addFault(line, "%s: the cluster file has no class %q; %s", key, name, allowedText(r.cluster.jobClasses(), func(c job.Class) string { return c.Name }, "write [[class]] with name = "+strconv.Quote(name)))
		}
	}
}

// allowedText returns "allowed: " and the names of all values that a user may choose. If there is no value, it
// returns write, which must say how to define one.
func allowedText[T any](all []T, name func(T) string, write string) string {
	if len(all) == 0 {
		return write
	}
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	return "allowed: " + strings.Join(names, ", ")
}

// takeAccess removes two keys from the table and returns the users and groups that they list. The arguments users and
// groups are the names of the keys.
func (t *keyTable) takeAccess(users, groups string) job.Access {
	return job.Access{Users: t.takeMembers(users, t.r.ids.User), Groups: t.takeMembers(groups, t.r.ids.Group)}
}

// takeClasses removes a key from the table and returns its list of classes. It adds an error for a class that does
// not exist. It returns nil, which admits any class, if the key is missing or the value is "any".
func (t *keyTable) takeClasses(key string) []string {
	names := t.takeWords(key, singleton)
	if len(names) == 1 && strings.EqualFold(names[0], "any") {
		return nil
	}
	t.r.checkClasses(t.lineOf(key), key, names)
	return names
}

// takeNodes removes a key from the table and returns its list of nodes. It adds an error for a node that does not
// exist. It returns nil if the key is missing.
func (t *keyTable) takeNodes(key string) (nodes []string) {
	for _, expr := range t.takeWords(key, singleton) {
		names, err := hostlist.Expand(expr)
		if err != nil {
			t.addFault(key, "%v", err)
		}
		for _, name := range names {
			if !t.r.byName[strings.ToLower(name)] {
				t.addFault(key, "there is no node %q", name)
			}
		}
		nodes = append(nodes, names...)
	}
	return nodes
}

var affinityKeys = []string{"nodes", "feature", "users", "groups", "classes", "value"}

func (r *reader) readAffinity(t *keyTable) job.Affinity {
	a := job.Affinity{Nodes: t.takeNodes("nodes"), Feature: t.takeText("feature"), Access: t.takeAccess("users", "groups"), Classes: t.takeClasses("classes")}
	if (a.Nodes == nil) == (a.Feature == "") {
		t.addFault("nodes", "an affinity needs one of the keys \"nodes\" and \"feature\", but not both")
	}
	values := map[string]int{"negative": -1, "none": 0, "positive": 1}
	word := t.takeText("value")
	value, known := values[strings.ToLower(word)]
	if !known {
		t.addFault("value", "%q is not an affinity; allowed: negative, positive, none", word)
	}
	a.Value = value
	t.reportUnknownKeys(affinityKeys...)
	return a
}

var regionKeys = []string{"name", "signature", "nodes", "gateWidth", "gateUsers", "gateGroups", "gateClasses"}

func (r *reader) readRegion(t *keyTable) job.Region {
	region := job.Region{Name: t.takeText("name"), Nodes: t.takeNodes("nodes"), Signature: t.takeSignature(),
		Gate: job.Gate{Access: t.takeAccess("gateUsers", "gateGroups"), Classes: t.takeClasses("gateClasses")}}
	if region.Name == "" {
		t.addFault("name", "the name of the region is missing")
	} else if slices.ContainsFunc(r.cluster.Rules.Regions, func(other job.Region) bool { return other.Name == region.Name }) {
		t.addFault("name", "the region %s is defined twice", region.Name)
	}
	if (region.Nodes == nil) == (region.Signature == "") {
		t.addFault("signature", "a region needs one of the keys \"signature\" and \"nodes\", but not both")
	}
	if text, given := t.takeScalar("gateWidth"); given {
		width, err := strconv.Atoi(text)
		if region.Gate.Width = &width; strings.EqualFold(text, "auto") {
			width = job.AutoWidth
		} else if err != nil || width < 0 || width > 1<<30 {
			t.addFault("gateWidth", "%q is neither a number of CPUs nor \"auto\"", text)
		}
	}
	t.reportUnknownKeys(regionKeys...)
	return region
}

// takeSignature removes the key "signature" from the table and returns the flavors of a region in canonical order. It
// returns "" if the region has no flavors.
func (t *keyTable) takeSignature() string {
	var flavors []string
	for _, word := range strings.Fields(t.takeText("signature")) {
		flavors = append(flavors, t.r.readFlavor(t.lineOf("signature"), "signature", word))
	}
	return Signature(flavors)
}

// flavorWords lists the flavors (kinds of nodes in a region) in the order in which Signature returns them.
var flavorWords = []string{"os", "su", "ap"}

// readFlavor returns a flavor in lower case. It adds an error if word is not a flavor.
func (r *reader) readFlavor(line int, key, word string) string {
	word = strings.ToLower(word)
	if !slices.Contains(flavorWords, word) {
		r.addFault(line, "%s: %q is not a flavor; allowed: ap, os, su", key, word)
	}
	return word
}

// Signature returns the given flavors (kinds of nodes) in the order os, su, ap, separated by blanks (which-hosts.md
// 10).
func Signature(flavors []string) string {
	var in []string
	for _, word := range flavorWords {
		if slices.Contains(flavors, word) {
			in = append(in, word)
		}
	}
	return strings.Join(in, " ")
}

// readDomain reads the list of regions that jobs may use.
func (r *reader) readDomain(f *clusterFile) {
	if f.Domain == nil {
		return
	}
	t := &keyTable{r: r, keys: map[string]any{"domain": f.Domain}, line: func(key string) int { return r.lines.global[key] }}
	rules := &r.cluster.Rules
	for _, name := range t.takeWords("domain", strings.Fields) {
		if !slices.ContainsFunc(rules.Regions, func(region job.Region) bool { return region.Name == name }) {
			t.addFault("domain", "there is no region %q; %s", name, allowedText(rules.Regions, func(r job.Region) string { return r.Name }, "write [[region]] with name = "+strconv.Quote(name)))
		}
		rules.Domain = append(rules.Domain, name)
	}
}

// readNodeAlloc reads the setting nodeAlloc, the criterion by which mpiexec chooses nodes.
func (r *reader) readNodeAlloc(f *clusterFile) {
	const key, other = "nodeAlloc", "NODEALLOCATIONPOLICY"
	t := &keyTable{r: r, keys: map[string]any{"nodealloc": f.NodeAlloc}, line: func(key string) int { return r.lines.global[key] }}
	name := key
	if f.NodeAllocationPolicy != nil {
		if name = other; f.NodeAlloc != nil {
			r.addFault(r.lines.global["nodeallocationpolicy"], "%s and %s mean the same; use only one of them", other, key)
		}
		t.keys = map[string]any{strings.ToLower(other): f.NodeAllocationPolicy}
	}
	if t.keys[strings.ToLower(name)] == nil {
		return
	}
	word := strings.ToUpper(t.takeText(name))
	if r.cluster.Rules.NodeAlloc = word; word != "" && word != "MAXBALANCE" && word != "DEFAULT" {
		r.addFault(r.lines.global[strings.ToLower(name)], "%s: %q; allowed: MAXBALANCE, DEFAULT", name, word)
	}
}

// readAttributes reads the settings of a [[node]] entry that which-hosts.md 3.1 defines in addition to the settings of
// placement.md 1.8.
func (r *reader) readAttributes(i int, e *nodeEntry, p *job.NodePolicy) {
	t := &keyTable{r: r, line: func(key string) int { return r.lines.lineInNode(i, key) }, keys: map[string]any{
		"procspeed": e.ProcSpeed, "memory": e.Memory, "networks": e.Networks, "classes": e.Classes, "global": e.Global,
		"flavors": e.Flavors, "reserve": e.Reserve}}
	p.Attributes = make(nodeset.Attributes)
	r.readOwnAttributes(i, e, p)
	for key, name := range map[string]string{"procspeed": nodeset.ProcSpeed, "memory": nodeset.Memory} {
		if text, given := t.takeScalar(key); given {
			if n, ok := nodeset.ParseQuantity(name, text); ok && n > 0 {
				p.Attributes[name] = nodeset.Value{Number: n}
			} else {
				unit := map[string]string{"procspeed": "MHz", "memory": "MB, or a string such as \"64G\""}[key]
				t.addFault(key, "%q is not a positive number of %s", text, unit)
			}
		}
	}
	for _, word := range t.takeWords("networks", singleton) {
		if word = strings.ToLower(word); !nodeset.IsLabel(strings.TrimPrefix(word, "-")) {
			t.addFault("networks", "%q is not a valid label; allowed: letters, digits, _ . + -; a - at the beginning removes the label", word)
		}
		p.Networks = append(p.Networks, word)
	}
	if p.Classes = t.takeWords("classes", singleton); len(p.Classes) == 1 && strings.EqualFold(p.Classes[0], "any") {
		p.Classes = nil
	}
	p.InAllSets = t.takeYesNo("global", false)
	for _, word := range t.takeWords("flavors", strings.Fields) {
		p.Flavors = append(p.Flavors, r.readFlavor(t.lineOf("flavors"), "flavors", word))
	}
	if text, given := t.takeScalar("reserve"); given {
		n, err := strconv.Atoi(text)
		if p.Reserve = n; err != nil || n < 0 || n > 65536 {
			t.addFault("reserve", "%q is not a number of CPUs", text)
		}
	}
	if len(p.Attributes) == 0 {
		p.Attributes = nil
	}
}

// reservedAttributes maps each attribute that cannot be set in the table "attributes" to a hint. The hint names the
// key to write instead, or says that mpiexec detects the attribute by a probe.
var reservedAttributes = map[string]string{
	nodeset.Feature: "write features", nodeset.ProcSpeed: "write procspeed", nodeset.Memory: "write memory", nodeset.Network: "write networks",
	nodeset.Class: "write classes", nodeset.Arch: "mpiexec detects this attribute on the hosts", nodeset.CPUModel: "mpiexec detects this attribute on the hosts", nodeset.NetSpeed: "mpiexec detects this attribute on the hosts",
	nodeset.CPUs: "mpiexec detects this attribute on the hosts", nodeset.GPUs: "mpiexec detects this attribute on the hosts", nodeset.GPUModel: "mpiexec detects this attribute on the hosts",
}

// readOwnAttributes reads the table "attributes" of a [[node]] entry, which sets attributes with names of the
// administrator's choice.
func (r *reader) readOwnAttributes(i int, e *nodeEntry, p *job.NodePolicy) {
	if e.Attributes == nil {
		return
	}
	t := r.openTable("attributes", e.Attributes, "attributes = { rack = \"r1\" }")
	if t == nil {
		return
	}
	t.line = func(key string) int {
		if line := r.lines.lineInNode(i, "attributes."+key); line != r.lines.lineInNode(i, "") {
			return line
		}
		return r.lines.lineInNode(i, "attributes")
	}
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		name, number := nodeset.CanonicalName(key), t.keys[key]
		if instead, own := reservedAttributes[name]; own || !nodeset.IsLabel(name) {
			if own {
				t.addFault("attributes."+key, "this name is reserved for a built-in attribute; %s", instead)
			} else {
				t.addFault("attributes."+key, "the name of an attribute may contain only letters, digits, _ . + -")
			}
			continue
		}
		switch number.(type) {
		case int64, float64:
			text, _ := t.takeScalar(key)
			n, ok := nodeset.ParseNumber(text)
			if !ok {
				t.addFault("attributes."+key, "%s %s", text, nodeset.NumberFault(text))
			}
			p.Attributes[name] = nodeset.Value{Number: n}
		default:
			labels := t.takeWords(key, singleton)
			for _, label := range labels {
				if !nodeset.IsLabel(label) {
					t.addFault("attributes."+key, "%q is not a valid label; allowed: letters, digits, _ . + -", label)
				}
			}
			p.Attributes[name] = nodeset.Value{Labels: labels}
		}
	}
}
