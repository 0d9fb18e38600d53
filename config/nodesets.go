package config

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"remshell/plan/nodeset"
)

// This file reads the defaults of node sets: [nodeset], which may also be said by the names of the
// scheduler that they are from, and nodeset of a class (which-hosts.md 3.2, 3.3).

// nodeSetKeys are the keys of [nodeset], and those of a class: all but the last two.
var nodeSetKeys = []string{"policy", "attribute", "list", "optional", "tolerance", "priority", "plus", "delay", "maxDelay", "perJob"}

// schedulerSetKeys are the other names of some, above the first table.
var schedulerSetKeys = map[string]string{
	"nodesetpolicy": "policy", "nodesetattribute": "attribute", "nodesetlist": "list", "nodesetisoptional": "optional",
	"nodesettolerance": "tolerance", "nodesetprioritytype": "priority", "nodesetplus": "plus", "nodesetdelay": "delay",
}

// readClusterSets reads the cluster's default, of the table and of the other names.
func (r *reader) readClusterSets(f *clusterFile, kinds nodeset.Kinds) {
	value := f.NodeSet
	if value == nil {
		value = map[string]any{}
	}
	t := r.openTable("nodeset", value, "[nodeset]")
	if t == nil {
		return
	}
	own := make(map[string]bool) // keys that are said by another name
	for name, said := range map[string]any{
		"NODESETPOLICY": f.NodeSetPolicy, "NODESETATTRIBUTE": f.NodeSetAttribute, "NODESETLIST": f.NodeSetList, "NODESETISOPTIONAL": f.NodeSetIsOptional,
		"NODESETTOLERANCE": f.NodeSetTolerance, "NODESETPRIORITYTYPE": f.NodeSetPriorityType, "NODESETPLUS": f.NodeSetPlus, "NODESETDELAY": f.NodeSetDelay,
	} {
		key := schedulerSetKeys[strings.ToLower(name)]
		if said == nil {
			continue
		}
		if _, twice := t.keys[key]; twice {
			r.addFault(r.lines.global[strings.ToLower(name)], "%s and %s of [nodeset] mean the same; keep one", name, key)
			continue
		}
		t.keys[key], t.spelling[key], own[key] = said, name, true
	}
	t.line = func(key string) int {
		for name, of := range schedulerSetKeys {
			if of == key && own[key] {
				return r.lines.global[name]
			}
		}
		return r.lineOf("nodeset", key)
	}
	rules := &r.cluster.Rules
	rules.NodeSetDefaults = t.takeSetLevel(kinds, false)
	if text, said := t.takeScalar("maxDelay"); said {
		if _, ok := nodeset.ParseTime(text); !ok {
			t.addFault("maxDelay", "%q is no time; allowed: SECONDS, 90s, 5m, 1h30m, [[DD:]HH:]MM:SS", text)
		}
		rules.MaxDelay = &text
	}
	rules.UserSetsForbidden = !t.takeYesNo("perJob", true)
	t.reportUnknownKeys(nodeSetKeys...)
}

// readClassSets reads the default of a class: a request in one text, or a table.
func (r *reader) readClassSets(name, key string, line int, value any, kinds nodeset.Kinds) nodeset.Level {
	text, is := value.(string)
	if is {
		l := nodeset.Level{Spec: &text}
		if _, err := (nodeset.Levels{Class: l}).Resolve(kinds); err != nil {
			r.addFault(line, "%s: %s", key, wordErrorText(err))
		}
		return l
	}
	t := r.openTable(name+"."+key, value, key+" = \"ONEOF:...\" or ["+name+"."+key+"]")
	if t == nil {
		return nodeset.Level{}
	}
	t.line = func(of string) int {
		if at := r.lines.lineInTable(t.name, of); at > 0 {
			return at
		}
		return line
	}
	l := t.takeSetLevel(kinds, true)
	t.reportUnknownKeys(nodeSetKeys[:len(nodeSetKeys)-2]...)
	return l
}

// takeSetLevel takes a request and its modifiers, and judges them.
func (t *keyTable) takeSetLevel(kinds nodeset.Kinds, class bool) nodeset.Level {
	l := nodeset.Level{Modifiers: make(map[string]string)}
	policy, attribute, list := t.takeText("policy"), t.takeText("attribute"), t.takeWords("list", nodeset.SplitList)
	switch {
	case policy != "" && attribute == "":
		t.addFault("attribute", "is missing beside policy; allowed: %s", strings.Join(kinds.Names(), ", "))
	case policy != "":
		l.Parts = &nodeset.RequestParts{Policy: policy, Attribute: attribute, List: list}
	case attribute != "" || list != nil:
		t.addFault("policy", "is missing beside attribute or list; allowed: ONEOF, ANYOF, FIRSTOF")
	}
	for _, key := range nodeset.Keys {
		if key == nodeset.KeyPlus {
			if words := t.takeWords(key, nodeset.SplitList); words != nil {
				l.Modifiers[key] = strings.Join(words, ",")
			}
		} else if text, said := t.takeScalar(key); said {
			l.Modifiers[key] = text
		}
	}
	t.checkSetLevel(l, kinds, class)
	return l
}

// checkSetLevel tells of the request, and of each modifier by itself beside it: a tolerance counts for the priority.
func (t *keyTable) checkSetLevel(l nodeset.Level, kinds nodeset.Kinds, class bool) {
	resolve := func(l nodeset.Level) error {
		l.ModifierSource = func(key string) string { return key }
		levels := nodeset.Levels{Cluster: l}
		if class {
			levels = nodeset.Levels{Class: l}
		}
		_, err := levels.Resolve(kinds)
		return err
	}
	request := nodeset.Level{Parts: l.Parts}
	if err := resolve(request); err != nil {
		t.addFault(requestKeyOf(err), "%s", wordErrorText(err))
		request.Parts = nil
	}
	beside := make(map[string]string)
	for _, key := range nodeset.Keys {
		text, said := l.Modifiers[key]
		if !said {
			continue
		}
		request.Modifiers = map[string]string{key: text}
		if tolerance, said := beside[nodeset.KeyTolerance]; said && key == nodeset.KeyPriority {
			request.Modifiers[nodeset.KeyTolerance] = tolerance
		}
		if err := resolve(request); err != nil {
			t.addFault(key, "%s", wordErrorText(err))
		} else {
			beside[key] = text
		}
	}
}

// requestKeyOf is the key of a request that has the wrong word.
func requestKeyOf(err error) string {
	var wrong *nodeset.SourceError
	if errors.As(err, &wrong) {
		switch wrong.Reason {
		case "unknown policy":
			return "policy"
		case "unknown attribute":
			return "attribute"
		}
	}
	return "list"
}

// wordErrorText is what is wrong, without where it stands.
func wordErrorText(err error) string {
	var wrong *nodeset.SourceError
	if errors.As(err, &wrong) {
		return wrong.WordError.Error()
	}
	return err.Error()
}

// attributeKinds are those of all attributes that nodes have. One that is text here and a number there is told.
func (r *reader) attributeKinds() nodeset.Kinds {
	numbers, texts := make(map[string]string), make(map[string]string) // nodes by attribute
	for _, n := range r.cluster.Nodes {
		for name, value := range n.Attributes {
			if value.Labels == nil {
				numbers[name] = n.Name
			} else {
				texts[name] = n.Name
			}
		}
	}
	kinds, _ := nodeset.KindsOf(len(r.cluster.Nodes), func(i int) nodeset.Attributes { return r.cluster.Nodes[i].Attributes })
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if text, both := texts[name]; both {
			r.addFault(r.lines.lineInNode(r.entries[numbers[name]], "attributes"), "attributes: %s is a number on %s, and text on %s; it has to be the same everywhere", name, numbers[name], text)
		}
	}
	return kinds
}
