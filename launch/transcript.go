package launch

import (
	"fmt"
	"strings"

	"remshell/format"
	"remshell/launch/supervise"
	"remshell/pmiserver/spawn"
)

// A transcript of what the ranks said to their PMI servers, and were told (--pmi-trace),
// is in the notation of transcript.ReadCases, so that it can become a test. Of ranks of
// several nodes it has the order in which mpiexec heard of it.

// recordPMILine notes a line of a rank of the job.
func (f *runningJob) recordPMILine(rank int, line string) {
	if g, number := f.groupOf(rank); f.transcript != nil && g != nil {
		group, _ := supervise.GroupOf(f.groupFirsts, rank)
		f.transcript.Trace(group, number, format.EscapeUncut(line))
	}
}

// recordSpawnLine notes a line about what a rank wants to be spawned.
func (f *runningJob) recordSpawnLine(r *spawn.Request, line string) {
	if g := f.groupNamed(r.Group); g != nil {
		f.recordPMILine(g.first+r.Rank, line)
	}
}

// writeTrace writes the transcript of a job that is over.
func (f *runningJob) writeTrace() {
	if f.transcript == nil {
		return
	}
	var sizes []int
	for _, g := range f.groups {
		sizes = append(sizes, g.plan.Size)
	}
	title := f.req.Command()
	if err := f.transcript.Write(f.env.Transcript, title, f.transcriptJob(), sizes); err != nil {
		f.env.Report(fmt.Sprintf("--pmi-trace: %v", err))
	}
}

// transcriptJob is what a transcript says of the job: transcript.Job.
func (f *runningJob) transcriptJob() string {
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
	if f.universeSize > 0 {
		words = append(words, fmt.Sprintf("universe=%d", f.universeSize))
	}
	if f.plan.Mapping != "" {
		words = append(words, "mapping="+f.plan.Mapping)
	}
	if len(f.groups) > 1 {
		words = append(words, "spawns=a")
	}
	return strings.Join(words, " ")
}
