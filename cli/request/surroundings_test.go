package request

import (
	"fmt"
	"testing"

	"remshell/config"
	"remshell/job"
)

// Nodes that the list does not name are added if they matter, without a host entry. All nodes get the IDs of the
// cluster file.
func TestSurroundings(t *testing.T) {
	auto, width := job.AutoWidth, 4
	var cluster config.Cluster
	for i, name := range []string{"n0", "n1", "n2"} {
		cluster.Nodes = append(cluster.Nodes, job.NodeDef{ID: 10 * i, Name: name, Host: name})
	}
	w := Inputs{Cluster: &cluster, Local: Localhost{Names: []string{"n0"}}}
	tests := []struct {
		name   string
		choose job.NodeSelection
		fixed  []job.FixedPlacement
		want   string
	}{
		{"nothing asked for", job.NodeSelection{}, nil, "[0 n2] [1 other]; []"},
		{"a width that is written down", job.NodeSelection{Regions: []job.Region{{Gate: job.Gate{Width: &width}}}}, nil, "[0 n2] [1 other]; []"},
		{"a width that is counted", job.NodeSelection{Regions: []job.Region{{}, {Gate: job.Gate{Width: &auto}}}}, nil, "[20 n2] [21 other] [0 n0] [10 n1]; [0 1]"},
		{"neighbours", job.NodeSelection{Contiguous: job.ContiguousBest}, nil, "[20 n2] [21 other] [0 n0] [10 n1]; [0 1]"},
		{"a rank file", job.NodeSelection{Contiguous: job.ContiguousBest}, []job.FixedPlacement{{}}, "[0 n2] [1 other]; []"},
	}
	for _, test := range tests {
		req := job.Request{Nodes: []job.NodeDef{{Name: "N2", Host: "n2"}, {ID: 1, Name: "other", Host: "other"}}, FixedPlacements: test.fixed}
		req.Nodes[0].Name, req.NodeSelection = "n2", test.choose
		w.addSurroundings(&req)
		got := ""
		for _, n := range req.Nodes {
			got += fmt.Sprint([]any{n.ID, n.Name}, " ")
			if n.Local != (n.Name == "n0") {
				t.Errorf("%s: %s is here: %v", test.name, n.Name, n.Local)
			}
		}
		if got = fmt.Sprintf("%s; %v", got[:len(got)-1], req.HostEntries); got != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
	}
}
