package config

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/plan/nodeset"
)

const attributeKindNames = `
nodeAlloc = "MAXBALANCE"
domain = ["main", "overflow"]

[nodeset]
policy = "oneof"
attribute = "PROCSPEED"
list = ["2000", 3000]
optional = "no"
tolerance = "50%"
priority = "minloss"
plus = ["SPANEVENLY", "delay"]
delay = "5m"
maxDelay = "30m"
perJob = "no"

[[class]]
name = "amd"
users = ["alice"]
nodeset = "ONEOF:FEATURE:ATHLON,OPTERON"
[[class]]
name = "own"
[class.nodeset]
policy = "FIRSTOF"
attribute = "rack"
delay = 60
[[class]]
name = "plain"
DEFAULT.NODESET = "ANYOF:PROCSPEED:450,500,650"

[[node]]
name = "n[0-7]"
procspeed = 2400.5
memory = "64G"
networks = ["via", "-ethernet"]
classes = ["amd"]
attributes = { rack = "r1", Weight = 2.5, colours = ["red", "blue"] }
global = "yes"
reserve = 1

[[node]]
name = "head"
flavors = ["ap", "os", "su"]

[[affinity]]
nodes = "n[6-7]"
value = "negative"
[[affinity]]
feature = "gpu"
users = ["alice"]
classes = ["own"]
value = "Positive"

[[region]]
name = "main"
signature = "ap"
[[region]]
name = "overflow"
nodes = ["head", "n[0-1]"]
gateWidth = "auto"
gateUsers = ["alice"]
gateGroups = ["chem"]
gateClasses = "any"
`

// A file with all keys.
func TestChoosing(t *testing.T) {
	c, err := Load("f", attributeKindNames, nobody)
	if err != nil {
		t.Fatal(err)
	}
	n, r := c.Nodes[0], c.Rules
	for _, test := range []struct{ got, want any }{
		{n.Attributes["PROCSPEED"].Number.String() + " " + n.Attributes["MEMORY"].Number.String() + " " + n.Attributes["WEIGHT"].Number.String(), "2400.5 65536 2.5"},
		{n.Attributes["RACK"].Labels, "[r1]"}, {n.Attributes["COLOURS"].Labels, "[red blue]"}, {len(n.Attributes), "5"},
		{n.Networks, "[via -ethernet]"}, {n.Classes, "[amd]"}, {n.InAllSets, "true"}, {n.Reserve, "1"}, {n.Flavors == nil, "true"},
		{Signature(c.Nodes[8].Flavors), "os su ap"}, {c.Nodes[8].Attributes == nil, "true"},
		{*r.NodeSetDefaults.Parts, "{oneof PROCSPEED [2000 3000]}"}, {r.NodeSetDefaults.Modifiers, "map[delay:5m optional:no plus:SPANEVENLY,delay priority:minloss tolerance:50%]"},
		{*r.MaxDelay, "30m"}, {r.UserSetsForbidden, "true"}, {r.NodeAlloc, "MAXBALANCE"}, {r.Domain, "[main overflow]"},
		{len(r.Classes), "3"}, {*r.Classes[0].NodeSetDefaults.Spec, "ONEOF:FEATURE:ATHLON,OPTERON"}, {r.Classes[0].Users, "[2000]"},
		{*r.Classes[1].NodeSetDefaults.Parts, "{FIRSTOF rack []}"}, {r.Classes[1].NodeSetDefaults.Modifiers, "map[delay:60]"}, {*r.Classes[2].NodeSetDefaults.Spec, "ANYOF:PROCSPEED:450,500,650"},
		{r.Affinity[0].Nodes, "[n6 n7]"}, {r.Affinity[0].Value, "-1"}, {r.Affinity[1].Feature, "gpu"}, {r.Affinity[1].Users, "[2000]"}, {r.Affinity[1].Classes, "[own]"},
		{r.Affinity[1].Value, "1"}, {r.Regions[0].Signature, "ap"}, {r.Regions[0].Gate.Width == nil, "true"}, {r.Regions[1].Nodes, "[head n0 n1]"},
		{*r.Regions[1].Gate.Width == job.AutoWidth, "true"}, {r.Regions[1].Gate.Users, "[2000]"}, {r.Regions[1].Gate.Groups, "[300]"}, {r.Regions[1].Gate.Classes == nil, "true"},
	} {
		if fmt.Sprint(test.got) != test.want {
			t.Errorf("%v, want %v", test.got, test.want)
		}
	}
}

// The scheduler's names have the same meaning.
func TestSelectionRulesOfTheScheduler(t *testing.T) {
	c, err := Load("f", `
NODESETPOLICY = "ONEOF"
NodeSetAttribute = "FEATURE"
nodesetlist = "switchA,switchB"
NODESETISOPTIONAL = false
NODESETPRIORITYTYPE = "BESTFIT"
NODESETPLUS = "DELAY"
NODESETDELAY = "00:01:00"
NODESETTOLERANCE = 0.0
NODEALLOCATIONPOLICY = "maxbalance"
[[node]]
name = "a"
`, nobody)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(*c.Rules.NodeSetDefaults.Parts, c.Rules.NodeSetDefaults.Modifiers, c.Rules.NodeAlloc); got != "{ONEOF FEATURE [switchA switchB]} map[delay:00:01:00 optional:no plus:DELAY priority:BESTFIT tolerance:0]MAXBALANCE" {
		t.Error(got)
	}
	if nodeset.Attributes(nil) != nil || c.Nodes[0].Attributes != nil {
		t.Error("a node without attributes has some")
	}
}

// Errors name the line, the key and the allowed values; all errors of a file are reported together.
func TestBrokenFiles(t *testing.T) {
	const node = "[[node]]\nname = \"a\"\n"
	for _, test := range []struct {
		text string
		want []string
	}{
		{"[nodeset]\npolicy = \"SOMEOF\"\nattribute = \"FEATURE\"\ndelay = \"soon\"\n" + node,
			[]string{`f:2: policy: "SOMEOF" is not a policy; allowed: ONEOF, ANYOF, FIRSTOF`, `f:4: delay: "soon" is not valid; allowed: SECONDS, 90s`}},
		{"[nodeset]\npolicy = \"ONEOF\"\n\nattribute = \"COLOUR\"\npriority = 3\ncolour = 1\n" + node,
			[]string{`f:4: attribute: "COLOUR" is not an attribute; allowed: ARCH, CLASS, CPUMODEL`, `f:5: priority: "3" is not valid; allowed: AFFINITY, BESTFIT`,
				`f:6: unknown key "colour"; allowed: policy, attribute, list`}},
		{"[nodeset]\npolicy = \"ONEOF\"\nattribute = \"FEATURE\"\ntolerance = 0.5\npriority = \"BESTRESOURCE\"\nlist = [\"a b\"]\noptional = \"maybe\"\n" + node,
			[]string{`f:6: list: "a b" is not a label; allowed: labels of letters, digits`, `f:7: optional: "maybe" is not valid; allowed: yes, no`}},
		{"[nodeset]\npolicy = \"ONEOF\"\nattribute = \"FEATURE\"\ntolerance = 0.5\npriority = \"BESTRESOURCE\"\n" + node,
			[]string{`f:4: tolerance: "0.5" is possible only with the attribute PROCSPEED`, `f:5: priority: "BESTRESOURCE" is possible only with the attribute PROCSPEED`}},
		{"NODESETPOLICY = \"ONEOF\"\nNODESETDELAY = true\n[nodeset]\npolicy = \"ONEOF\"\n" + node,
			[]string{`f:1: NODESETPOLICY and policy of [nodeset] mean the same; use only one of them`, `f:2: delay: "yes" is not valid; allowed: SECONDS`, `f:3: attribute: this key is missing, but the key "policy" requires it; allowed: ARCH`}},
		{"[[class]]\nname = \"amd\"\nnodeset = \"ONEOF:COLOUR\"\n[[class]]\nname = \"b\"\n[class.nodeset]\npolicy = 3\nmaxDelay = 5\n[[class]]\nname = \"c\"\nDEFAULT.QUEUE = \"x\"\n" + node,
			[]string{`f:3: nodeset: "COLOUR" is not an attribute; allowed: ARCH`, `f:7: policy: 3 is not a string in quotes`, `f:8: unknown key "maxDelay"; allowed: policy`, `f:11: DEFAULT: write DEFAULT.NODESET = "ONEOF:..."`}},
		{node + "procspeed = \"fast\"\nmemory = -3\nnetworks = [\"a b\"]\nglobal = 3\nflavors = [\"xx\"]\nreserve = \"all\"\nclasses = [\"amd\"]\nattributes = { FEATURE = \"x\", rack = \"a b\", w = -1 }\n",
			[]string{`f:3: procspeed: "fast" is not a positive number of MHz`, `f:4: memory: "-3" is not a positive number of MB, or a string such as "64G"`, `f:5: networks: "a b" is not a valid label`,
				`f:6: global: 3 is not yes or no`, `f:7: flavors: "xx" is not a flavor; allowed: ap, os, su`, `f:8: reserve: "all" is not a number of CPUs`,
				`f:9: classes: the cluster file has no class "amd"; write [[class]] with name = "amd"`, `f:10: attributes.feature: this name is reserved for a built-in attribute; write features`,
				`f:10: attributes.rack: "a b" is not a valid label; allowed: letters, digits, _ . + -`, `f:10: attributes.w: -1 is not between 0 and 8000000000`}},
		{node + "attributes = { weight = 3 }\n[[node]]\nname = \"b\"\nattributes = { Weight = \"heavy\" }\n",
			[]string{`f:3: attributes: WEIGHT is a number on a but a string on b; it must have one type everywhere`}},
		{"[class.x]\n" + node + "[[affinity]]\nnodes = \"z\"\nfeature = \"gpu\"\nvalue = \"good\"\nclasses = [\"y\"]\n[[affinity]]\nvalue = \"none\"\n",
			[]string{`f:5: nodes: there is no node "z"`, `f:5: nodes: an affinity needs one of the keys "nodes" and "feature", but not both`, `f:7: value: "good" is not an affinity; allowed: negative, positive, none`,
				`f:8: classes: the cluster file has no class "y"; allowed: x`, `f:9: nodes: an affinity needs one of the keys "nodes" and "feature", but not both`}},
		{"domain = [\"main\", \"other\"]\nnodeAlloc = \"SOME\"\nNODEALLOCATIONPOLICY = \"DEFAULT\"\n" + node + "[[region]]\nname = \"main\"\nsignature = \"ap\"\nnodes = \"a\"\ngateWidth = \"wide\"\n[[region]]\nname = \"main\"\ncolour = 3\n",
			[]string{`f:1: domain: there is no region "other"; allowed: main`, `f:3: NODEALLOCATIONPOLICY and nodeAlloc mean the same; use only one of them`,
				`f:8: signature: a region needs one of the keys "signature" and "nodes", but not both`, `f:10: gateWidth: "wide" is neither a number of CPUs nor "auto"`, `f:12: name: the region main is defined twice`,
				`f:11: signature: a region needs one of the keys "signature" and "nodes"`, `f:13: unknown key "colour"; allowed: name, signature`}},
		{"nodeset = 3\naffinity = \"x\"\nnodeAlloc = \"SOME\"\ndomain = [[1]]\n" + node,
			[]string{`f:1: nodeset: 3 is not a table; write [nodeset]`, `f:2: affinity: write [[affinity]]`, `f:3: nodeAlloc: "SOME"; allowed: MAXBALANCE, DEFAULT`, `f:4: domain: `}},
		{node + "CLASSCFG[amd] DEFAULT.NODESET=ONEOF:FEATURE\n", []string{`f:3: CLASSCFG cannot be used in a cluster file; write [[class]] with name = "amd"`}},
		{"[nodeset]\nlist = [\"a\"]\nplus = [\"SOON\"]\nmaxDelay = \"x\"\nperJob = 3\n" + node,
			[]string{`f:1: policy: this key is missing, but the keys "attribute" and "list" require it; allowed: ONEOF, ANYOF, FIRSTOF`, `f:3: plus: "SOON" is not valid; allowed: SPANEVENLY, DELAY`, `f:4: maxDelay: "x" is not a time`, `f:5: perJob: 3 is not yes or no`}},
	} {
		_, err := Load("f", test.text, nobody)
		if err == nil {
			t.Errorf("no error:\n%s", test.text)
			continue
		}
		faults := strings.Split(err.Error(), "\n")
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %s in\n%v\nof\n%s", want, err, test.text)
			}
		}
		if len(faults) < len(test.want) || len(faults) > len(test.want)+1 {
			t.Errorf("%d faults, want %d:\n%v", len(faults), len(test.want), err)
		}
	}
}
