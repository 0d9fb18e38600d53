package plan

import (
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// The ranks on a node divide all of its free CPUs evenly, and the job claims all of these. A rank of a
// torch program must not share one core with its own loader threads.
func TestEvenParts(t *testing.T) {
	all := func(n, gpus, threads int) job.App {
		return job.App{N: n, Argv: []string{"a"}, RankNeeds: job.RankNeeds{AllCPUs: true, GPUs: gpus, CPUsPerRank: threads}}
	}
	own := job.App{N: 1, Argv: []string{"b"}, RankNeeds: job.RankNeeds{CPUsPerRank: 3}}
	one := func(apps ...job.App) job.Request { return job.Request{Apps: apps} }
	busy := func(nodes string, cpus ...int) job.Snapshot {
		snap := nodesWithGPUs(nodes)
		snap.Nodes[0].Occupancy = job.Occupancy{BusyCPUs: cpus}
		return snap
	}
	with := func(snap job.Snapshot, change func(*job.Node)) job.Snapshot {
		change(&snap.Nodes[0])
		return snap
	}
	core, home := one(all(2, 0, 0)), one(all(3, 0, 0))
	core.Layout.Bind = pin.Binding{Level: pin.ByCore, Text: "core"}
	home.LocalOnly = true
	unpinned, again := one(all(2, 0, 0)), one(all(2, 0, 0))
	unpinned.NoPin, again.Attempt = true, 1
	for _, test := range []struct {
		name string
		snap job.Snapshot
		req  job.Request
		want string // CPUs and GPUs of each rank
		note string
	}{
		{"one rank", nodesWithGPUs("n1:8"), one(all(1, 0, 0)), "n1:0-7/", "each rank gets 8 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"two ranks", nodesWithGPUs("n1:8"), one(all(2, 0, 0)), "n1:0-3/ n1:4-7/", "each rank gets 4 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"what is left over is left free", nodesWithGPUs("n1:8"), one(all(3, 0, 0)), "n1:0-1/ n1:2-3/ n1:4-5/", "each rank gets 2 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"nodes of two sizes", nodesWithGPUs("n1:2 n2:6"), one(all(4, 0, 0)), "n1:0/ n1:1/ n2:0-2/ n2:3-5/", "each rank gets 1 to 3 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"no more than one for each", nodesWithGPUs("n1:2"), one(all(2, 0, 0)), "n1:0/ n1:1/", ""},
		{"other jobs keep theirs", busy("n1:8", 0, 5), one(all(2, 0, 0)), "n1:1-3/ n1:4,6-7/", "each rank gets 3 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"OMP_NUM_THREADS is the least", nodesWithGPUs("n1:8"), one(all(1, 0, 4)), "n1:0-7/", "each rank gets 8 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"beside an app with --tpp", nodesWithGPUs("n1:8"), one(own, all(2, 0, 0)), "n1:0-2/ n1:3-4/ n1:5-6/", "each rank gets 2 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"apps of two widths", nodesWithGPUs("n1:8"), one(all(1, 0, 6), all(2, 0, 0)), "n1:0-5/ n1:6/ n1:7/", ""},
		{"each near its GPU", nodesWithGPUs("n1:8/2+10"), one(all(2, 1, 0)), "n1:4-7/0 n1:0-3/1", "each rank gets 4 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"GPUs of one memory node", nodesWithGPUs("n1:8/2+00"), one(all(2, 1, 0)), "n1:0-3/0 n1:4-7/1", "each rank gets 4 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"all see all GPUs", nodesWithGPUs("n1:4/2+01"), one(all(2, 0, 0)), "n1:0-1/ n1:2-3/",
			"each rank gets 2 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N | each rank sees all GPUs of its host; to give each rank a GPU of its own, use -gpus-per-proc 1"},
		{"a quota of CPU time", with(nodesWithGPUs("n1:8"), func(n *job.Node) { n.CPUQuota = 4 }), one(all(2, 0, 0)), "n1:0-1/ n1:2-3/", "each rank gets 2 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"slots count ranks", with(nodesWithGPUs("n1:8"), func(n *job.Node) { n.Slots = 2 }), one(all(2, 0, 0)), "n1:0-3/ n1:4-7/", "each rank gets 4 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"a CPU in reserve", with(nodesWithGPUs("n1:8"), func(n *job.Node) { n.Reserve = 2 }), one(all(1, 0, 0)), "n1:0-5/", "each rank gets 6 CPUs, which is an equal part of its host; to give each rank fewer CPUs, use --tpp N"},
		{"a binding that was asked for", nodesWithGPUs("n1:8"), core, "n1:0/ n1:1/", ""},
		{"not bound", nodesWithGPUs("n1:8"), unpinned, "n1:/ n1:/", ""},
		{"ranks share CPUs", nodesWithGPUs("n1:2"), home, "n1:0/ n1:1/ n1:0/", "3 ranks share 2 CPUs. To hide this message, use --oversubscribe"},
		{"a restart does not repeat it", nodesWithGPUs("n1:8"), again, "n1:0-3/ n1:4-7/", ""},
	} {
		p, err := Make(requestFor(test.req, test.snap))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := cpusAndGPUs(p); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		var notes []string
		for _, note := range p.Notes {
			notes = append(notes, note.Text)
		}
		if got := strings.Join(notes, " | "); got != test.note {
			t.Errorf("%s: says %q, want %q", test.name, got, test.note)
		}
		bound := 0
		for _, n := range p.Nodes {
			for _, r := range n.Ranks {
				bound += len(r.CPUs)
			}
		}
		if claimed := p.Nodes[0].CPUs(); !test.req.NoPin && len(p.Nodes) == 1 && claimed != bound {
			t.Errorf("%s: bound to %d CPUs, and claims %d", test.name, bound, claimed)
		}
	}
}
