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
func (j *Job) recordPMILine(rank int, line string) {
	if g, number := j.GroupOf(rank); j.transcript != nil && g != nil {
		group, _ := supervise.GroupOf(j.GroupFirsts, rank)
		j.transcript.Trace(group, number, format.EscapeUncut(line))
	}
}

// recordSpawnLine adds a line about a spawn request of a rank.
func (j *Job) recordSpawnLine(r *spawn.Request, line string) {
	if g := j.GroupNamed(r.Group); g != nil {
		j.recordPMILine(g.First+r.Rank, line)
	}
}

// writeTrace writes the transcript of a job that is over.
func (j *Job) writeTrace() {
	if j.transcript == nil {
		return
	}
	var sizes []int
	for _, g := range j.Groups {
		sizes = append(sizes, g.Plan.Size)
	}
	title := j.Request.Command()
	if err := j.transcript.Write(j.Env.Transcript, title, j.transcriptJob(), sizes); err != nil {
		j.Env.Report(fmt.Sprintf("--pmi-trace: %v", err))
	}
}

// transcriptJob returns the job line of the transcript: see transcript.Job.
func (j *Job) transcriptJob() string {
	fields := []string{"fresh", fmt.Sprintf("size=%d", j.Plan.Size), "name=" + j.Groups[0].Name}
	apps := make([]string, j.Plan.Size)
	nodes := make([]byte, j.Plan.Size)
	const most = 26 // nodes are named by letters
	for i, np := range j.Plan.Nodes {
		for _, r := range np.Ranks {
			apps[r.Rank] = fmt.Sprint(r.App)
			nodes[r.Rank] = 'a' + byte(i%most)
		}
	}
	if len(j.Plan.Nodes) > 1 && len(j.Plan.Nodes) <= most {
		fields = append(fields, "nodes="+string(nodes))
	}
	if len(j.Groups[0].Apps) > 1 {
		fields = append(fields, "apps="+strings.Join(apps, ","))
	}
	if j.universeSize > 0 {
		fields = append(fields, fmt.Sprintf("universe=%d", j.universeSize))
	}
	if j.Plan.Mapping != "" {
		fields = append(fields, "mapping="+j.Plan.Mapping)
	}
	if len(j.Groups) > 1 {
		fields = append(fields, "spawns=a")
	}
	return strings.Join(fields, " ")
}
