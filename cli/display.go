package cli

import (
	"bytes"
	"io"
	"os"
	"slices"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch"
	"remshell/show"
	"remshell/whatif"
)

// A pictures says what is to be told of a job before it starts (DIAG-2, DIAG-4).
type pictures struct{ topo, hosts, byNode, byRank bool }

func wanted(j option.Job) pictures {
	asked := func(word string) bool {
		return slices.ContainsFunc(j.Display, func(p option.Picture) bool { return slices.Contains(p, word) })
	}
	mapped := j.DisplayMap != "" || asked("map")
	full := j.DisplayMap == "full" || j.Verbosity > 1
	return pictures{
		topo: j.DisplayTopo || asked("topo"), hosts: j.DisplayAlloc || asked("allocation"),
		byNode: mapped && !full, byRank: mapped && full,
	}
}

// seen draws what is known when the hosts have been looked at.
func (p pictures) seen(v show.View) (text string) {
	if p.hosts {
		text += show.Hosts(v)
	}
	if p.topo {
		text += show.Topology(v.Snapshot.Nodes)
	}
	return text
}

// planned draws what is known when the ranks have their places.
func (p pictures) planned(v show.View) (text string) {
	if p.byNode {
		text += show.Map(v)
	}
	if p.byRank {
		text += show.Ranks(v)
	}
	return text
}

// all draws both.
func (p pictures) all(v show.View) string {
	if v.Err != nil {
		return p.seen(v)
	}
	return p.seen(v) + p.planned(v)
}

// display has the pictures drawn in a run, each as soon as it can be.
func display(line option.Line, req job.Request, env *launch.Env) {
	p, save := wanted(line.Job), env.Seen
	if p == (pictures{}) {
		return
	}
	env.Seen = func(snap job.Snapshot) {
		if save != nil {
			save(snap)
		}
		io.WriteString(env.Err, p.seen(show.View{Request: req, Snapshot: snap}))
	}
	env.Planned = func(snap job.Snapshot, planned job.Plan) {
		io.WriteString(env.Err, p.planned(show.View{Request: req, Snapshot: snap, Plan: planned}))
	}
}

// viewOf is what there is to tell of a plan. way tells how a host would be reached; nil:
// none would, since the cluster is in a file.
func viewOf(o whatif.Outcome, environ []string, way func(job.NodeDef) string) show.View {
	v := show.View{Request: o.Request, Snapshot: o.Snapshot, Plan: o.Plan, Err: o.Err, Warnings: o.Warnings}
	if way != nil {
		v.Way, v.Environ = way, environ
	}
	return v
}

// showPlan writes a plan in the form that was asked for: one JSON object, which also
// tells what is wrong, or a text. Pictures go where they do not mix with JSON.
func showPlan(line option.Line, sys System, o whatif.Outcome, way func(job.NodeDef) string) (int, error) {
	v := viewOf(o, sys.Environ, way)
	pictures := wanted(line.Job).all(v)
	var err error
	switch file := line.Job.JSON; {
	case line.Job.Plan, file == "-":
		io.WriteString(sys.Err, pictures)
		var b bytes.Buffer
		if err = whatif.Write(&b, o); err == nil {
			_, err = sys.Out.Write(show.JSON(b.Bytes()))
		}
	case file != "":
		_, err = io.WriteString(sys.Out, pictures)
		if err == nil {
			err = writeFile(file, func(w io.Writer) error { return whatif.Write(w, o) })
		}
	default:
		_, err = io.WriteString(sys.Out, pictures+show.DryRun(v))
	}
	if err == nil && !o.Placed() {
		err = notPlaced{o.Err}
	}
	return exitOK, err
}

// writeFile makes a file.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Close()
	}
	return err
}
