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

// setKeys are the keys of [nodeset], and those of a class: all but the last two.
var setKeys = []string{"policy", "attribute", "list", "optional", "tolerance", "priority", "plus", "delay", "maxDelay", "perJob"}

// seedKeys are the other names of some, above the first table.
var seedKeys = map[string]string{
	"nodesetpolicy": "policy", "nodesetattribute": "attribute", "nodesetlist": "list", "nodesetisoptional": "optional",
	"nodesettolerance": "tolerance", "nodesetprioritytype": "priority", "nodesetplus": "plus", "nodesetdelay": "delay",
}

// clusterSets reads the cluster's default, of the table and of the other names.
func (r *reader) clusterSets(f *clusterFile, kinds nodeset.Kinds) {
	value := f.NodeSet
	if value == nil {
		value = map[string]any{}
	}
	t := r.table("nodeset", value, "[nodeset]")
	if t == nil {
		return
	}
	own := make(map[string]bool) // keys that are said by another name
	for name, said := range map[string]any{
		"NODESETPOLICY": f.NodeSetPolicy, "NODESETATTRIBUTE": f.NodeSetAttribute, "NODESETLIST": f.NodeSetList, "NODESETISOPTIONAL": f.NodeSetIsOptional,
		"NODESETTOLERANCE": f.NodeSetTolerance, "NODESETPRIORITYTYPE": f.NodeSetPriorityType, "NODESETPLUS": f.NodeSetPlus, "NODESETDELAY": f.NodeSetDelay,
	} {
		key := seedKeys[strings.ToLower(name)]
		if said == nil {
			continue
		}
		if _, twice := t.keys[key]; twice {
			r.fault(r.lines.global[strings.ToLower(name)], "%s and %s of [nodeset] mean the same; keep one", name, key)
			continue
		}
		t.keys[key], t.said[key], own[key] = said, name, true
	}
	t.line = func(key string) int {
		for name, of := range seedKeys {
			if of == key && own[key] {
				return r.lines.global[name]
			}
		}
		return r.at("nodeset", key)
	}
	rules := &r.cluster.Rules
	rules.Sets = t.level(kinds, false)
	if text, said := t.scalar("maxDelay"); said {
		if _, ok := nodeset.ParseTime(text); !ok {
			t.fault("maxDelay", "%q is no time; allowed: SECONDS, 90s, 5m, 1h30m, [[DD:]HH:]MM:SS", text)
		}
		rules.MaxDelay = &text
	}
	rules.Closed = !t.yes("perJob", true)
	t.done(setKeys...)
}

// classSets reads the default of a class: a request in one text, or a table.
func (r *reader) classSets(name, key string, line int, value any, kinds nodeset.Kinds) nodeset.Level {
	text, is := value.(string)
	if is {
		l := nodeset.Level{Spec: &text}
		if _, err := (nodeset.Levels{Class: l}).Resolve(kinds); err != nil {
			r.fault(line, "%s: %s", key, wrongWord(err))
		}
		return l
	}
	t := r.table(name+"."+key, value, key+" = \"ONEOF:...\" or ["+name+"."+key+"]")
	if t == nil {
		return nodeset.Level{}
	}
	t.line = func(of string) int {
		if at := r.lines.in(t.name, of); at > 0 {
			return at
		}
		return line
	}
	l := t.level(kinds, true)
	t.done(setKeys[:len(setKeys)-2]...)
	return l
}

// level takes a request and its modifiers, and judges them.
func (t *keyTable) level(kinds nodeset.Kinds, class bool) nodeset.Level {
	l := nodeset.Level{Said: make(map[string]string)}
	policy, attribute, list := t.text("policy"), t.text("attribute"), t.words("list", nodeset.Words)
	switch {
	case policy != "" && attribute == "":
		t.fault("attribute", "is missing beside policy; allowed: %s", strings.Join(kinds.Names(), ", "))
	case policy != "":
		l.Pieces = &nodeset.Pieces{Policy: policy, Attribute: attribute, List: list}
	case attribute != "" || list != nil:
		t.fault("policy", "is missing beside attribute or list; allowed: ONEOF, ANYOF, FIRSTOF")
	}
	for _, key := range nodeset.Keys {
		if key == nodeset.KeyPlus {
			if words := t.words(key, nodeset.Words); words != nil {
				l.Said[key] = strings.Join(words, ",")
			}
		} else if text, said := t.scalar(key); said {
			l.Said[key] = text
		}
	}
	t.judge(l, kinds, class)
	return l
}

// judge tells of the request, and of each modifier by itself beside it: a tolerance counts for the priority.
func (t *keyTable) judge(l nodeset.Level, kinds nodeset.Kinds, class bool) {
	resolve := func(l nodeset.Level) error {
		l.Key = func(key string) string { return key }
		levels := nodeset.Levels{Cluster: l}
		if class {
			levels = nodeset.Levels{Class: l}
		}
		_, err := levels.Resolve(kinds)
		return err
	}
	request := nodeset.Level{Pieces: l.Pieces}
	if err := resolve(request); err != nil {
		t.fault(pieceOf(err), "%s", wrongWord(err))
		request.Pieces = nil
	}
	beside := make(map[string]string)
	for _, key := range nodeset.Keys {
		text, said := l.Said[key]
		if !said {
			continue
		}
		request.Said = map[string]string{key: text}
		if tolerance, said := beside[nodeset.KeyTolerance]; said && key == nodeset.KeyPriority {
			request.Said[nodeset.KeyTolerance] = tolerance
		}
		if err := resolve(request); err != nil {
			t.fault(key, "%s", wrongWord(err))
		} else {
			beside[key] = text
		}
	}
}

// pieceOf is the key of a request that has the wrong word.
func pieceOf(err error) string {
	var wrong *nodeset.Refusal
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

// wrongWord is what is wrong, without where it stands.
func wrongWord(err error) string {
	var wrong *nodeset.Refusal
	if errors.As(err, &wrong) {
		return wrong.WordError.Error()
	}
	return err.Error()
}

// kinds are those of all attributes that nodes have. One that is text here and a number there is told.
func (r *reader) kinds() nodeset.Kinds {
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
			r.fault(r.lines.of(r.entries[numbers[name]], "attributes"), "attributes: %s is a number on %s, and text on %s; it has to be the same everywhere", name, numbers[name], text)
		}
	}
	return kinds
}
