package plan

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// Names marked SeparateNode divide the cores of their machine; all other names have one part together.
func TestSeparateNodes(t *testing.T) {
	for _, test := range []struct{ nodes, want string }{ // name@machine; ! marks a separate node
		{"a@1", "a@1:0123"},
		{"!a@1", "a@1:0123"},
		{"a@1 b@1", "a@1:0123 b@1:0123"},
		{"!a@1 !b@1", "a@1/a:01 b@1/b:23"},
		{"!a@1 b@1 c@1", "a@1/a:01 b@1:23 c@1:23"},
		{"b@1 !a@1 !c@1 d@2", "b@1:0 a@1/a:1 c@1/c:23 d@2:0123"},
		{"!a@1 !b@1 !c@1 !d@1 !e@1", "a@1/a:0123 b@1/b:0123 c@1/c:0123 d@1/d:0123 e@1/e:0123"},
		{"!a@ !b@", "a@:0123 b@:0123"},
	} {
		var nodes []job.Node
		for word := range strings.FieldsSeq(test.nodes) {
			name, machine, _ := strings.Cut(word, "@")
			n := job.Node{NodeDef: job.NodeDef{Name: strings.TrimPrefix(name, "!"), SeparateNode: name[0] == '!'}}
			n.Identity = machine
			for cpu := range 4 {
				n.Topology.Cores = append(n.Topology.Cores, pin.Core{CPUs: []int{cpu}})
			}
			nodes = append(nodes, n)
		}
		for range 2 {
			Partition(nodes)
			var got []string
			for _, n := range nodes {
				text := n.Name + "@" + n.Identity + ":"
				for _, c := range n.Topology.Cores {
					text += fmt.Sprint(c.CPUs[0])
				}
				got = append(got, text)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%s: got %s, want %s", test.nodes, strings.Join(got, " "), test.want)
			}
		}
	}
}
