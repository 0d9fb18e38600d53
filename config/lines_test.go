package config

import "testing"

// Lines of keys are found by TOML's grammar, not in strings or comments.
func TestLinesOfKeys(t *testing.T) {
	l := scanKeyLines(`# ledger = "/no"
queueHosts = [
  "a", # overbook = 1
  "b",
]
"Ledger" = '''
overbook = "no"
'''
overbook = "yes"

[[node]]
name = "n1"   # id = 1
[other]
id = 7
[[ node ]]
name = "n[2-3]"
'id' = 2
`)
	for key, want := range map[string]int{"queuehosts": 2, "ledger": 6, "overbook": 9, "id": 0, "name": 0} {
		if got := l.global[key]; got != want {
			t.Errorf("%s is in line %d, want %d", key, got, want)
		}
	}
	for key, want := range map[string][2]int{"name": {12, 16}, "id": {11, 17}, "maxproc": {11, 15}} {
		if got := [2]int{l.lineInNode(0, key), l.lineInNode(1, key)}; got != want {
			t.Errorf("%s of the nodes is in lines %v, want %v", key, got, want)
		}
	}
	if len(l.nodes) != 2 || l.lineInNode(2, "name") != 0 {
		t.Errorf("nodes %v", l.nodes)
	}
}
