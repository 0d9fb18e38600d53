package plan

import (
	"fmt"
	"testing"

	"remshell/job"
)

// Where nobody says how many ranks there are, each host gets as many as a batch system has granted
// tasks there; what is beyond its CPUs is overbooked, and told (RM-6, RM-20).
func TestGranted(t *testing.T) {
	for _, test := range []struct {
		name, cluster string
		tasks         []int
		ranks         int
		want          string // ranks of each node, and the notes
	}{
		{"as they were granted", "a:4/4 b:4/4", []int{1, 2}, 0, "a:1 b:2"},
		{"as many as are wanted", "a:4/4 b:4/4", []int{1, 2}, 6, "a:4 b:2"},
		{"none on one of them", "a:4/4 b:4/4", []int{0, 2}, 0, "b:2"},
		{"not counted", "a:4/4 b:4/4", []int{0, 0}, 0, "a:4 b:4"},
		{"more than there are", "a:2/4 b:4/4", []int{4, 1}, 0, "a:4 b:1; warning: a: 4 slots granted but only 2 CPUs usable"},
	} {
		snap := cluster(test.cluster)
		for i := range snap.Nodes {
			snap.Nodes[i].Tasks = test.tasks[i]
		}
		p, err := Make(on(job.Request{Apps: []job.App{{N: test.ranks}}, RM: &job.RM{Name: "slurm", Job: "7"}}, snap))
		got := ""
		for i, n := range p.Nodes {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprintf("%s:%d", n.Name, len(n.Ranks))
		}
		for _, note := range p.Notes {
			got += "; " + note.Text
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}
