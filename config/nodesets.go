package config

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"remshell/plan/nodeset"
)

// This file reads the default node-set requests: of the cluster in [nodeset], also under the scheduler's names, and of
// classes (which-hosts.md 3.2, 3.3).

// nodeSetKeys are the keys of the table [nodeset]. The settings of a class may have all of these keys except the
// last two.
var nodeSetKeys = []string{"policy", "attribute", "list", "optional", "tolerance", "priority", "plus", "delay", "maxDelay", "perJob"}

// schedulerSetKeys maps keys of the Moab scheduler to the nodeSetKeys with the same meaning. A cluster file may
// contain these keys at its top level.
var schedulerSetKeys = map[string]string{
	"nodesetpolicy": "policy", "nodesetattribute": "attribute", "nodesetlist": "list", "nodesetisoptional": "optional",
	"nodesettolerance": "tolerance", "nodesetprioritytype": "priority", "nodesetplus": "plus", "nodesetdelay": "delay",
}

// readClusterSets reads the default node-set request of the cluster. It accepts mpiexec's own keys and the
// keys of the Moab scheduler.
func (r *reader) readClusterSets(f *clusterFile, kinds nodeset.Kinds) {
	value := f.NodeSet
	if value == nil {
		value = map[string]any{}
	}
	t := r.openTable("nodeset", value, "[nodeset]")
	if t == nil {
		return
	}
	renamed := make(map[string]bool) // keys given under the scheduler's name
	for name, value := range map[string]any{
		"NODESETPOLICY": f.NodeSetPolicy, "NODESETATTRIBUTE": f.NodeSetAttribute, "NODESETLIST": f.NodeSetList, "NODESETISOPTIONAL": f.NodeSetIsOptional,
		"NODESETTOLERANCE": f.NodeSetTolerance, "NODESETPRIORITYTYPE": f.NodeSetPriorityType, "NODESETPLUS": f.NodeSetPlus, "NODESETDELAY": f.NodeSetDelay,
	} {
		key := schedulerSetKeys[strings.ToLower(name)]
		if value == nil {
			continue
		}
		if _, twice := t.keys[key]; twice {
			r.addFault(r.lines.global[strings.ToLower(name)], "%s and %s of [nodeset] mean the same; use only one of them", name, key)
			continue
		}
		t.keys[key], t.spelling[key], renamed[key] = value, name, true
	}
	t.line = func(key string) int {
		for name, of := range schedulerSetKeys {
			if of == key && renamed[key] {
				return r.lines.global[name]
			}
		}
		return r.lineOf("nodeset", key)
	}
	rules := &r.cluster.Rules
	rules.NodeSetDefaults = t.takeSetLevel(kinds, false)
	if text, given := t.takeScalar("maxDelay"); given {
		if _, ok := nodeset.ParseTime(text); !ok {
			t.addFault("maxDelay", "%q is not a time; allowed: SECONDS, 90s, 5m, 1h30m, [[DD:]HH:]MM:SS", text)
		}
		rules.MaxDelay = &text
	}
	rules.UserSetsForbidden = !t.takeYesNo("perJob", true)
	t.reportUnknownKeys(nodeSetKeys...)
}

// readClassSets reads the default node-set request of a class. value is a string or a table.
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

// takeSetLevel removes the keys of a node-set request and its modifiers from the table, checks their values, and
// returns the values.
func (t *keyTable) takeSetLevel(kinds nodeset.Kinds, class bool) nodeset.Level {
	l := nodeset.Level{Modifiers: make(map[string]string)}
	policy, attribute, list := t.takeText("policy"), t.takeText("attribute"), t.takeWords("list", nodeset.SplitList)
	switch {
	case policy != "" && attribute == "":
		t.addFault("attribute", "this key is missing, but the key \"policy\" requires it; allowed: %s", strings.Join(kinds.Names(), ", "))
	case policy != "":
		l.Parts = &nodeset.RequestParts{Policy: policy, Attribute: attribute, List: list}
	case attribute != "" || list != nil:
		t.addFault("policy", "this key is missing, but the keys \"attribute\" and \"list\" require it; allowed: ONEOF, ANYOF, FIRSTOF")
	}
	for _, key := range nodeset.Keys {
		if key == nodeset.KeyPlus {
			if words := t.takeWords(key, nodeset.SplitList); words != nil {
				l.Modifiers[key] = strings.Join(words, ",")
			}
		} else if text, given := t.takeScalar(key); given {
			l.Modifiers[key] = text
		}
	}
	t.checkSetLevel(l, kinds, class)
	return l
}

// checkSetLevel adds an error for an invalid node-set request, and one for each invalid modifier. It checks each
// modifier without the others, so that an error names the right modifier. Only the priority is checked together with
// the tolerance, because it depends on it.
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
	valid := make(map[string]string)
	for _, key := range nodeset.Keys {
		text, given := l.Modifiers[key]
		if !given {
			continue
		}
		request.Modifiers = map[string]string{key: text}
		if tolerance, given := valid[nodeset.KeyTolerance]; given && key == nodeset.KeyPriority {
			request.Modifiers[nodeset.KeyTolerance] = tolerance
		}
		if err := resolve(request); err != nil {
			t.addFault(key, "%s", wordErrorText(err))
		} else {
			valid[key] = text
		}
	}
}

// requestKeyOf returns the key of the cluster file whose value caused err: "policy", "attribute" or "list".
func requestKeyOf(err error) string {
	var wrong *nodeset.SourceError
	if errors.As(err, &wrong) {
		switch wrong.Reason {
		case nodeset.NoPolicy:
			return "policy"
		case nodeset.NoAttribute:
			return "attribute"
		}
	}
	return "list"
}

// wordErrorText returns the text of err. It leaves out where the invalid word was given, because the caller adds the
// key.
func wordErrorText(err error) string {
	var wrong *nodeset.SourceError
	if errors.As(err, &wrong) {
		return wrong.WordError.Error()
	}
	return err.Error()
}

// attributeKinds returns the kinds (text or number) of all attributes of nodes. It adds an error for an attribute whose
// value is text on one node and a number on another.
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
			r.addFault(r.lines.lineInNode(r.entries[numbers[name]], "attributes"), "attributes: %s is a number on %s but a string on %s; it must have one type everywhere", name, numbers[name], text)
		}
	}
	return kinds
}
