package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// contiguousRequest returns a request for contiguous nodes.
func contiguousRequest(how job.Contiguity, apps ...job.App) job.Request {
	req := job.Request{Apps: apps}
	req.Contiguous = how
	return req
}

// withBusyNodes sets the number of processes of nodes: "b:4 c:1".
func withBusyNodes(snap job.Snapshot, who string) job.Snapshot {
	for _, word := range strings.Fields(who) {
		name, procs, _ := strings.Cut(word, ":")
		for i := range snap.Nodes {
			if snap.Nodes[i].Name == name {
				snap.Nodes[i].Ranks = int(procs[0] - '0')
			}
		}
	}
	return snap
}

func TestContiguous(t *testing.T) {
	newApp := func(n, threads, shape int) job.App {
		return job.App{N: n, RankNeeds: job.RankNeeds{CPUsPerRank: threads, ExactPerNode: shape}}
	}
	tests := []struct {
		name, cluster, busy string
		req                 job.Request
		want                string
	}{
		{"several apps in one window", "a:4 b:4 c:4 d:4", "b:4", contiguousRequest("first", newApp(3, 1, 0), newApp(3, 1, 0)), "c c c c d d"},
		{"of which the second leaves a CPU over", "a:4 b:4 c:4 d:4", "b:4", contiguousRequest("first", newApp(3, 1, 0), newApp(2, 2, 0)), "c c c d d"},
		{"in shapes of their own", "a:4 b:4 c:4 d:4", "b:3", contiguousRequest("best", newApp(4, 1, 2), newApp(2, 1, 2)), "c c d d d d"},
		{"no number of ranks", "a:2 b:2 c:4 d:4", "b:2", contiguousRequest("first", newApp(0, 1, 0)), "c c c c d d d d"},
		{"the largest number that fits", "a:2 b:2 c:4", "b:2", contiguousRequest("first", job.App{Soft: []int{6, 4, 2}}), "c c c c"},
		{"alone where overbooking was asked for", "a:2 b:2 c:2", "a:1", func() job.Request {
			req := contiguousRequest("first", newApp(4, 1, 0))
			req.Overbook = true
			return req
		}(), "b b c c"},
		{"on this machine alone", "a:2", "", func() job.Request {
			req := contiguousRequest("first", newApp(3, 1, 0))
			req.LocalOnly = true
			return req
		}(), "error not-enough-cpus"},
		{"none", "a:2 b:2 c:2", "b:2", contiguousRequest("best", newApp(4, 1, 0)), "error no-contiguous"},
		{"no app is left out", "a:2 b:2 c:2", "b:2", contiguousRequest("best", newApp(2, 1, 0), newApp(2, 1, 0)), "error no-contiguous"},
	}
	for _, test := range tests {
		p, err := Make(requestFor(test.req, withBusyNodes(cluster(test.cluster), test.busy)))
		got := nodesByRank(p)
		var failed *Error
		if errors.As(err, &failed) {
			got = "error " + failed.Code
		}
		if got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// The error if the job would fit, but not on contiguous nodes.
func TestRefuseNotContiguous(t *testing.T) {
	_, err := Make(requestFor(contiguousRequest("first", job.App{N: 16}), withBusyNodes(cluster("c0:4 c1:4 c2:4 c3:4 c4:4 c5:4 c6:4 c7:4"), "c1:4 c5:4")))
	const text, way = "there are no contiguous nodes for 16 ranks: contiguous nodes have room for at most 12 ranks (c[2-4]), and all nodes together for 24", "leave out --contiguous, so that mpiexec may use nodes that are not contiguous; or use --wait to wait for other jobs to end"
	var failed *Error
	if !errors.As(err, &failed) || failed.Text != text || failed.Remedy != way || failed.Permanent {
		t.Errorf("%v; %s", err, failed.Remedy)
	}
	req := contiguousRequest("first", job.App{N: 16})
	req.Wait = true
	if _, err = Make(requestFor(req, withBusyNodes(cluster("c0:8 c1:8 c2:8"), "c1:8"))); !errors.As(err, &failed) || failed.QueuePosition != 1 || failed.Code != CodeNotContiguous {
		t.Errorf("%v: it is not queued", err)
	}
}

// The error of a contiguous job names the jobs in the way, and says which of them can be moved (survive.md
// SV-18).
func TestJobsInTheWay(t *testing.T) {
	snap := withBusyNodes(cluster("c0:4 c1:4 c2:4 c3:4 c4:4 c5:4 c6:4 c7:4"), "c1:4 c5:4 c6:1")
	for i, who := range map[int]job.Occupancy{1: {TopUser: "alice", TopJob: "j1", Movable: true}, 5: {TopUser: "bob", TopJob: "j2"}, 6: {TopUser: "bob", TopJob: "j2"}} {
		n := &snap.Nodes[i]
		n.TopUser, n.TopJob, n.Movable = who.TopUser, who.TopJob, who.Movable
	}
	_, err := Make(requestFor(contiguousRequest("first", job.App{N: 16}), snap))
	const text, way = "; other jobs use nodes of the cluster: job j1 of alice on c1 (mpiexec can move it), job j2 of bob on c[5-6] (mpiexec cannot move it)", "ask the user of job j1, or an administrator, to move it with: mpiexec --migrate j1"
	var failed *Error
	if !errors.As(err, &failed) || !strings.HasSuffix(failed.Text, text) || !strings.Contains(failed.Remedy, way) {
		t.Errorf("%v; %s", err, failed.Remedy)
	}
	for i := range snap.Nodes {
		snap.Nodes[i].TopUser, snap.Nodes[i].TopJob = "eve", job.ID(fmt.Sprint("e", i))
	}
	if _, err = Make(requestFor(contiguousRequest("first", job.App{N: 16}), withBusyNodes(snap, "c1:4 c5:4"))); !strings.Contains(err.Error(), "job e7 of eve on c7 (mpiexec cannot move it)") {
		t.Errorf("%v", err)
	}
}

// Nodes outside the host list belong to the line too.
func TestTheLineIsNotTheList(t *testing.T) {
	req, snap := requestFor(contiguousRequest("first", job.App{N: 4}), cluster("a:2 b:2 c:2"))
	for _, test := range []struct {
		entries []int
		want    string
	}{{[]int{2, 1}, "b b c c"}, {[]int{0, 2}, ""}} {
		req.HostEntries = test.entries
		if p, err := Make(req, snap); nodesByRank(p) != test.want {
			t.Errorf("%v: %s, %v", test.entries, nodesByRank(p), err)
		}
	}
}

// BenchmarkContiguous places 3,000 ranks on 10,000 nodes of 64 CPUs. Every second node is busy, except at
// the end of the line: of 4,976 runs only the last can run the job.
func BenchmarkContiguous(b *testing.B) {
	cores := make([]pin.Core, 64)
	for i := range cores {
		cores[i] = pin.Core{CPUs: []int{i}}
	}
	var snap job.Snapshot
	for i := range 10000 {
		n := job.Node{NodeDef: job.NodeDef{ID: i, Name: fmt.Sprint("n", i)}, Probe: job.Probe{Identity: fmt.Sprint(i), Topology: pin.Topology{Cores: cores}}}
		if i%2 == 1 && i < 9950 {
			n.Ranks = 64
		}
		snap.Nodes = append(snap.Nodes, n)
	}
	for _, how := range []job.Contiguity{"", job.ContiguousFirst, job.ContiguousBest} {
		req, snap := requestFor(contiguousRequest(how, job.App{N: 3000}), snap)
		req.Sort = "PROC"
		b.Run("way="+string(how), func(b *testing.B) {
			for b.Loop() {
				if _, err := Make(req, snap); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
