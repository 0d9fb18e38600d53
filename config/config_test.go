package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var nobody = IDs{
	User:  func(name string) (int, error) { return findID(name, map[string]int{"alice": 2000}) },
	Group: func(name string) (int, error) { return findID(name, map[string]int{"chem": 300}) },
}

func findID(name string, known map[string]int) (int, error) {
	if id, ok := known[name]; ok {
		return id, nil
	}
	return 0, fmt.Errorf("nobody is called %q", name)
}

// The commented example in the documentation is valid.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../doc/cluster.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load("cluster.toml", string(text), nobody)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 1005 || c.Sort != "PROC" || len(c.QueueHosts) != 2 || c.QueueHosts[0] != "front" {
		t.Errorf("%d nodes, sorted by %q, queue at %q", len(c.Nodes), c.Sort, c.QueueHosts)
	}
	front, last, fat := c.Nodes[0], c.Nodes[1000], c.Nodes[1004]
	if !front.NoJobs || front.Address != "192.0.2.1" || len(front.Aliases) != 2 {
		t.Errorf("front: %+v", front)
	}
	if last.ID != 1000 || last.Name != "node1000" || last.Aliases[0] != "node1000.example.org" || last.MaxProcs != nil || last.Users != nil {
		t.Errorf("the thousandth: %+v", last)
	}
	if fat.ID != 1004 || fat.Name != "fat4" || *fat.MaxProcs != 256 || fmt.Sprint(fat.Groups, fat.Features) != "[2000] [eth ib fat]" {
		t.Errorf("fat4: %+v", fat)
	}
}

func TestPolicy(t *testing.T) {
	c, err := Load("f", `
[[node]]
name = "a"
user = ["alice", 7]
group = "chem"
processes = 0
hwtype = ["x"]
overbook = "auto"
exclusive = false
CPUmap = [3, 1]
pinProcs = "no"
bindMem = false
countThreads = true
[[node]]
id = 9
name = "b"
users = []
overbook = "no"
`, nobody)
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Nodes[0], c.Nodes[1]
	if got := fmt.Sprint(a.Users, a.Groups, *a.MaxProcs, a.Features, a.NoOverbook, a.NoExclusive, a.CPUMap, a.NoPin, a.NoMemBind, a.CountThreads); got != "[7 2000] [300] 0 [x] false true [3 1] true true true" {
		t.Errorf("a: %s", got)
	}
	if b.ID != 9 || b.Users == nil || len(b.Users) != 0 || !b.NoOverbook || a.Origin != "f:3" {
		t.Errorf("b: %+v", b)
	}
}

func TestFaults(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "[[node]]\nname = \"a\"\nmaxprocs = 3\n", `f:3: unknown key "maxprocs" (did you mean "maxproc"?)`},
		{"administrators", "administrators = 7\n[[node]]\nname = \"a\"\n", `f:1: `},
		{"unknown global key", "queueHots = \"a\"\n[[node]]\nname = \"a\"\n", `f:1: unknown key "queueHots" (did you mean "queueHost"?)`},
		{"unknown and far", "[[node]]\nname = \"a\"\ncolour = 3\n", `f:3: unknown key "colour"`},
		{"not TOML", "[[node]]\nname = a\n", "f:2: "},
		{"wrong type", "[[node]]\nname = 3\n", "f:2: "},
		{"no nodes", "", "f: no node"},
		{"no name", "# x\n[[node]]\nid = 3\n", "f:2: a node needs a name"},
		{"same ID", "[[node]]\nname = \"a\"\nid = 1\n[[node]]\nname = \"b\"\nid = 1\n", "f:6: node b has the ID 1, which node a has, too"},
		{"same name", "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\naliases = [\"A\"]\n", "f:5: the name A is defined twice"},
		{"bad range", "[[node]]\nname = \"a[3-1]\"\n", "f:2: name: "},
		{"uneven", "[[node]]\nname = \"a[1-3]\"\naddress = \"10.0.0.[1-2]\"\n", "f:3: address: 10.0.0.[1-2] lists 2 names, but the entry has 3 nodes"},
		{"sort", "PSINodesSort = \"CPU\"\n[[node]]\nname = \"a\"\n", `f:1: PSINodesSort: unknown sort criterion "CPU"; allowed: PROC, LOAD,`},
		{"queue host", "queueHost = \"q\"\n[[node]]\nname = \"a\"\n", `f:1: queueHost: there is no node "q"`},
		{"one of the queue hosts", "queueHosts = [\"a\", \"q\"]\n[[node]]\nname = \"a\"\n", `f:1: queueHosts: there is no node "q"`},
		{"queue hosts twice", "queueHost = \"a\"\nqueueHosts = [\"a\"]\n[[node]]\nname = \"a\"\n", `f:2: queueHost and queueHosts mean the same; use only one of them`},
		{"switch", "[[node]]\nname = \"a\"\nrunJobs = \"maybe\"\n", "f:3: runJobs: \"maybe\" is not yes or no"},
		{"overbook", "[[node]]\nname = \"a\"\noverbook = 3\n", "f:3: overbook: 3 is not yes, no or auto"},
		{"maxproc", "[[node]]\nname = \"a\"\nmaxproc = -1\n", "f:3: maxproc: -1 is neither a number"},
		{"user", "[[node]]\nname = \"a\"\nusers = [[\"bob\"]]\n", `f:3: users: a list is neither a name nor a number`},
		{"map", "[[node]]\nname = \"a\"\nCPUmap = [65536]\n", "f:3: CPUmap: there is no core 65536"},
		{"both names", "[[node]]\nname = \"a\"\nuser = [1]\nusers = [1]\n", "mean the same; use only one of them"},
		{"a global key in a node", "[[node]]\nname = \"a\"\nPSINodesSort = \"LOAD\"\n", `f:3: unknown key "PSINodesSort" (this key is allowed only above the first [[node]])`},
		{"a key of a node above all", "maxproc = 3\n[[node]]\nname = \"a\"\n", `f:1: unknown key "maxproc" (this key is allowed only below a [[node]])`},
		{"wrong table", "[[nodes]]\nname = \"a\"\n", `f:1: unknown key "nodes" (did you mean "node"?)`},
		{"a list of queue hosts", "queueHost = [\"n1\", \"n2\"]\n", `f:1: queueHost accepts only one host; for several hosts, write queueHosts = ["A", "B"]`},
		{"a text for a list", "[[node]]\nname = \"a\"\nfeatures = \"ib\"\n", `f:3: features cannot be a TOML string; write a list of strings`},
		{"a text for a number", "[[node]]\nname = \"a\"\nid = \"1\"\n", `f:3: id cannot be a TOML string; write a whole number`},
		{"texts for numbers", "[[node]]\nname = \"a\"\nCPUmap = [\"1\"]\n", `f:3: CPUmap cannot be a TOML string; write a whole number`},
		{"a number for a table", "node = 3\n", `f:1: node cannot be a TOML integer; write a table, [[node]],`},
		{"a key twice", "[[node]]\nname = \"a\"\nname = \"b\"\n", `f:3: key name is already defined`},
		{"empty limit", "[[node]]\nname = \"a\"\nmaxproc = \"\"\n", `f:3: maxproc: "" is neither a number nor "any"`},
		{"one bracket", "[node]\nname = \"a\"\nrunJobs = 1\n", `f:3: runJobs: 1 is not yes or no`},
		{"in one line", "node = [{name = \"a\", runJobs = 1}]\n", `f: runJobs: 1 is not yes or no`},
		{"huge ID", "[[node]]\nname = \"a\"\nid = 2147483647\n", "f:3: id 2147483647 is not a valid node ID"},
	}
	for _, test := range tests {
		_, err := Load("f", test.text, nobody)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.name, err, test.want)
		}
	}
	if _, err := Load("f", "[[node]]\nname = \"a\"\nrunJobs = 1\nmaxproc = \"x\"\n", nobody); strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v; want both faults", err)
	}
}

// Unknown user and group names match nobody. Each causes one warning, and no error.
func TestUnknownMembersAreWarnings(t *testing.T) {
	c, err := Load("f", `
administrators = ["alice", "bert", "7"]
[class.long]
users = ["bob", "alice"]
[[node]]
name = "a"
users = ["bob"]
[[node]]
name = "b"
users = ["bob", "alice", 7]
groups = ["chem", "physics"]
`, nobody)
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Nodes[0], c.Nodes[1]
	if got := fmt.Sprint(a.Users == nil, a.Users, b.Users, b.Groups, c.Classes["long"].Users); got != "false [] [7 2000] [300] [2000]" {
		t.Errorf("%s", got)
	}
	want := "[f:2: administrators: nobody is called \"bert\", so the name is ignored f:4: users: nobody is called \"bob\", so the name is ignored f:11: groups: nobody is called \"physics\", so the name is ignored]"
	if got := fmt.Sprint(c.Warnings); got != want {
		t.Errorf("warnings %s, want %s", got, want)
	}
	r, err := LoadAdminRules("f", "# x\nusers = [\"bob\"]\n", nobody)
	if err != nil || fmt.Sprint(r.Warnings) != "[f:2: users: nobody is called \"bob\", so the name is ignored]" {
		t.Fatalf("%+v, %v", r, err)
	}
	why, _ := (RuleSet{r}).ForbidReason(5, nil)
	roots, _ := (RuleSet{r}).ForbidReason(0, nil)
	if why != "the host is reserved for other users (f:2: users: nobody is called \"bob\", so the name is ignored)" || roots != "" {
		t.Errorf("why: %q, %q", why, roots)
	}
}

// Messages about values of a wrong type name TOML types, not Go types.
func TestNoMessageShowsAValueOfGo(t *testing.T) {
	values := []string{`3`, `1.5`, `true`, `"x"`, `""`, `[]`, `[3]`, `[["x"]]`, `["x", 3]`, `{}`, `{ a = 1 }`, `[{ a = { b = 2 } }]`, `1979-05-27T07:32:00Z`, `07:32:00`, `-9999999999999`}
	judge := func(text string, err error) {
		t.Helper()
		if err == nil {
			return
		}
		for _, word := range []string{"map[", "[]", "interface", "struct", "config.", "%!", " Go ", "slice", "0x", "toml.", "+0000", "<nil>", "limit."} {
			if strings.Contains(strings.NewReplacer("parties and slice", "", "slice: ", "").Replace(err.Error()), word) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	tables := []string{"", "[limits]\n", "[gang]\n", "[class]\n", "[class.a]\n", "[class.a.limits]\n", "[class.a.nodeset]\n", "[[class]]\nname = \"a\"\n", "[nodeset]\n", "[[affinity]]\n", "[[region]]\n", "[[node]]\n", "[[node]]\nname = \"b\"\n", "[node.attributes]\n"}
	keys := slices.Concat(globalKeys, nodeKeys, classKeys, nodeSetKeys, affinityKeys, regionKeys, []string{"mem", "hmem", "walltime", "nofile", "rack", "parties"})
	for _, key := range keys {
		for _, value := range values {
			for _, table := range tables {
				text := table + key + " = " + value + "\n[[node]]\nname = \"a\"\n"
				_, err := Load("f", text, nobody)
				judge(text, err)
			}
			text := key + " = " + value + "\n"
			_, err := LoadAdminRules("f", text, nobody)
			judge(text, err)
			_, err = LoadLimits("f", text)
			judge(text, err)
		}
	}
	for _, text := range []string{"[limits]\nwalltime = 2\n", "[[limits]]\nwalltime = 2\n", "[a.b]\nc = 1\n"} {
		_, err := LoadLimits("f", text)
		judge(text, err)
		_, err = LoadAdminRules("f", text, nobody)
		judge(text, err)
	}
}

// A byte order mark and CR LF are accepted, and blanks around words (1.1).
func TestLenient(t *testing.T) {
	c, err := Load("f", "\ufeffPSINodesSort = \" load \"\r\n[[node]]\r\nname = \"a\"\r\n", nobody)
	if err != nil || c.Sort != "load" || c.Nodes[0].Origin != "f:3" {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = Load("f", "node = [{name = \"a\"}]\n", nobody)
	if err != nil || c.Nodes[0].Origin != "f" {
		t.Errorf("%+v, %v", c, err)
	}
}

// A parastation.conf is answered with the keys to write, by its name or its content.
func TestParaStationConfiguration(t *testing.T) {
	for _, test := range []struct {
		name, text string
		is         bool
	}{
		{"/etc/parastation.conf", "# comment\nDEADInterval\n", true},
		{"f", "# of psid\n\nInstallDir /opt/parastation\nNodes {\n  n1 0\n}\n", true},
		{"f", "HWType { ethernet }\nNrOfNodes 2\n", true},
		{"f", "nodes = {\n", false},
		{"f", "name n1\n", false},
		{"f", "", false},
	} {
		_, err := Load(test.name, test.text, nobody)
		if got := err != nil && err.Error() == test.name+": "+ParaStationText; got != test.is {
			t.Errorf("%s, %q: %v", test.name, test.text, err)
		}
	}
	if _, err := Load("/etc/parastation.conf", "[[node]]\nname = \"a\"\n", nobody); err != nil {
		t.Errorf("a cluster file with that name: %v", err)
	}
}

// For any text Load returns a cluster or an error.
func FuzzLoad(f *testing.F) {
	f.Add("[[node]]\nname = \"node[1-10]\"\nid = 3\nusers = [\"alice\"]\n")
	f.Add("PSINodesSort = \"LOAD\"\nqueueHost = \"a\"\nnode = [{name = \"a\", runJobs = true}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Load("f", text, nobody)
		if err == nil && len(c.Nodes) == 0 {
			t.Errorf("%q: neither nodes nor an error", text)
		}
	})
}
