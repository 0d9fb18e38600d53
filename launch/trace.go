package launch

import (
	"fmt"
	"strings"

	"remshell/launch/supervise"
	"remshell/pmiserver/spawn"
	"remshell/show"
)

// A transcript of what the ranks said to their PMI servers, and were told (--pmi-trace),
// is in the notation of transcript.ReadCases, so that it can become a test. Of ranks of
// several nodes it has the order in which mpiexec heard of it.

// record notes a line of a rank of the job.
func (f *fleet) record(rank int, line string) {
	if g, number := f.groupOf(rank); f.trace != nil && g != nil {
		group, _ := supervise.Split(f.firsts, rank)
		f.trace.Trace(group, number, show.Whole(line))
	}
}

// recordSpawn notes a line about what a rank wants to be spawned.
func (f *fleet) recordSpawn(r *spawn.Request, line string) {
	if g := f.groupNamed(r.Group); g != nil {
		f.record(g.first+r.Rank, line)
	}
}

// writeTrace writes the transcript of a job that is over.
func (f *fleet) writeTrace() {
	if f.trace == nil {
		return
	}
	var sizes []int
	for _, g := range f.groups {
		sizes = append(sizes, g.plan.Size)
	}
	title := f.req.Command()
	if err := f.trace.Write(f.env.Trace, title, f.scene(), sizes); err != nil {
		f.env.Say(fmt.Sprintf("--pmi-trace: %v", err))
	}
}

// scene is what a transcript says of the job: transcript.Job.
func (f *fleet) scene() string {
	words := []string{"fresh", fmt.Sprintf("size=%d", f.plan.Size), "name=" + f.groups[0].name}
	apps := make([]string, f.plan.Size)
	nodes := make([]byte, f.plan.Size)
	const most = 26 // nodes have letters
	for i, np := range f.plan.Nodes {
		for _, r := range np.Ranks {
			apps[r.Rank] = fmt.Sprint(r.App)
			nodes[r.Rank] = 'a' + byte(i%most)
		}
	}
	if len(f.plan.Nodes) > 1 && len(f.plan.Nodes) <= most {
		words = append(words, "nodes="+string(nodes))
	}
	if len(f.groups[0].apps) > 1 {
		words = append(words, "apps="+strings.Join(apps, ","))
	}
	if f.usize > 0 {
		words = append(words, fmt.Sprintf("universe=%d", f.usize))
	}
	if f.plan.Mapping != "" {
		words = append(words, "mapping="+f.plan.Mapping)
	}
	if len(f.groups) > 1 {
		words = append(words, "spawns=a")
	}
	return strings.Join(words, " ")
}
