package launch

import (
	"fmt"
	"strings"

	"remshell/format"
	"remshell/launch/supervise"
	"remshell/pmiserver/spawn"
)

// This file keeps a transcript of the lines between ranks and their PMI servers (--pmi-trace). Its
// format is that of transcript.ReadCases, so that it can become a test. Lines of ranks on several
// nodes are in the order in which mpiexec received them.

// recordPMILine adds a line of a rank of the job.
func (f *runningJob) recordPMILine(rank int, line string) {
	if g, number := f.groupOf(rank); f.transcript != nil && g != nil {
		group, _ := supervise.GroupOf(f.groupFirsts, rank)
		f.transcript.Trace(group, number, format.EscapeUncut(line))
	}
}

// recordSpawnLine adds a line about a spawn request of a rank.
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

// transcriptJob returns the job line of the transcript: see transcript.Job.
func (f *runningJob) transcriptJob() string {
	fields := []string{"fresh", fmt.Sprintf("size=%d", f.plan.Size), "name=" + f.groups[0].name}
	apps := make([]string, f.plan.Size)
	nodes := make([]byte, f.plan.Size)
	const most = 26 // nodes are named by letters
	for i, np := range f.plan.Nodes {
		for _, r := range np.Ranks {
			apps[r.Rank] = fmt.Sprint(r.App)
			nodes[r.Rank] = 'a' + byte(i%most)
		}
	}
	if len(f.plan.Nodes) > 1 && len(f.plan.Nodes) <= most {
		fields = append(fields, "nodes="+string(nodes))
	}
	if len(f.groups[0].apps) > 1 {
		fields = append(fields, "apps="+strings.Join(apps, ","))
	}
	if f.universeSize > 0 {
		fields = append(fields, fmt.Sprintf("universe=%d", f.universeSize))
	}
	if f.plan.Mapping != "" {
		fields = append(fields, "mapping="+f.plan.Mapping)
	}
	if len(f.groups) > 1 {
		fields = append(fields, "spawns=a")
	}
	return strings.Join(fields, " ")
}
