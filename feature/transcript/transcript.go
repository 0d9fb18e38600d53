/*
Package transcript is the feature of mpiexec that keeps a transcript of the lines between ranks and their PMI
servers (--pmi-trace). The transcript has the format that transcript.ReadCases reads, so that it can be used as a
test. Lines of ranks on several nodes are in the order in which mpiexec received them.

	--pmi-trace: Request --Prepare--> helper
	helper --PMITrace--> recorder --> file, when the job is over
	spawn requests -----/
*/
package transcript

import (
	"fmt"
	"io"
	"strings"

	"remshell/format"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/pmiserver/transcript"
)

func init() { launch.Register(launch.Feature{Name: "transcript", Attach: attach}) }

// A recorder keeps the transcript of one attempt (one run of all ranks).
type recorder struct {
	job  *launch.Job
	file io.Writer
	transcript.Recorder
}

func attach(j *launch.Job) {
	request, wanted := launch.SettingOf[*Request](j)
	if !wanted {
		return
	}
	r := &recorder{job: j, file: request.File}
	j.KeepGroups = true // the transcript names all of them
	launch.Handle(j, func(_ *launch.Node, m *PMITrace) []supervise.Event {
		r.addLine(m.Rank, m.Line)
		return nil
	})
	j.Hooks.PMILine.Add(r.addLine)
	j.Hooks.Reported.Add(func(job.Result) { r.write() })
}

// addLine adds a line of a rank of the job to the transcript.
func (r *recorder) addLine(rank int, line string) {
	if g, number := r.job.GroupOf(rank); g != nil {
		group, _ := supervise.GroupOf(r.job.GroupFirsts, rank)
		r.Trace(group, number, format.EscapeUncut(line))
	}
}

// write writes the transcript when the job is over.
func (r *recorder) write() {
	j := r.job
	var sizes []int
	for _, g := range j.Groups {
		sizes = append(sizes, g.Plan.Size)
	}
	if err := r.Write(r.file, j.Request.Command(), jobLine(j), sizes); err != nil {
		j.Env.Report(fmt.Sprintf("--pmi-trace: %v", err))
	}
}

// jobLine returns the line of the transcript that describes the job. Package pmiserver/transcript reads it as a Job.
func jobLine(j *launch.Job) string {
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
	if j.UniverseSize > 0 {
		fields = append(fields, fmt.Sprintf("universe=%d", j.UniverseSize))
	}
	if j.Plan.Mapping != "" {
		fields = append(fields, "mapping="+j.Plan.Mapping)
	}
	if len(j.Groups) > 1 {
		fields = append(fields, "spawns=a")
	}
	return strings.Join(fields, " ")
}
