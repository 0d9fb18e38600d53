package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/psi"
	"remshell/reach"
	"remshell/show"
	"remshell/whatif"
)

// This file answers --plan and --dry-run, and draws what a run shows of its plan.

// planFile answers --plan or --dry-run with --cluster-state FILE (placement.md 9).
// Nobody is reached. The code is 0 if ranks were placed.
func planFile(line option.Line, sys System) error {
	return showPlan(line, sys, world(sys).FromState(line), nil)
}

// dryRun plans with what was written down of the hosts (--no-probe).
func (c *call) dryRun() error {
	local := func() (p job.Probe, t job.Traits, err error) {
		if p, err = probeHere(c.sys); err == nil && c.req.Traits {
			t = traitsHere(c.sys)
		}
		return p, t, err
	}
	err := showPlan(c.line, c.sys, request.Offline(c.req, c.warnings, local), routeOf(c.env.Dialer))
	if err == nil {
		flush(c.env.Err)
	}
	return err
}

// plan plans for the hosts as they are now, and starts nothing. A dry run looks for the program, too.
func (c *call) plan(ctx context.Context) error {
	var o whatif.Outcome
	decide := func(snap job.Snapshot) job.Plan {
		o = whatif.Decide(c.req, snap, c.warnings)
		if !c.line.Job.DryRun {
			return job.Plan{}
		}
		return o.Plan
	}
	refused, err := reserve.Rehearse(ctx, c.req, c.env.Env, decide)
	if err != nil {
		if !c.req.Skip || !errors.As(err, new(*reserve.HostsError)) {
			return err
		}
		decide(job.Snapshot{}) // that none of many nodes is up is a plan's own answer: no-candidates, with reasons
	}
	if err := cmp.Or(showPlan(c.line, c.sys, o, routeOf(c.env.Dialer)), refused); err != nil {
		return err
	}
	flush(c.env.Err)
	return nil
}

// topology draws the hosts as they are now (--display topo without a program).
func (c *call) topology(ctx context.Context) error {
	snap, err := reserve.Survey(ctx, c.req, c.env.Env)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.sys.Out, wanted(c.line.Job).seen(show.View{Request: c.req, Snapshot: snap}))
	if err == nil {
		flush(c.env.Err)
	}
	return err
}

// routeOf tells how a dialer would reach a node, as far as it tells (DIAG-1).
func routeOf(d node.Dialer) func(job.NodeDef) string {
	way, tells := d.(reach.Way)
	return func(def job.NodeDef) string {
		if !tells {
			return ""
		}
		text, err := way.Route(node.HostOf(def))
		if err != nil {
			return inOneLine(err)
		}
		return text
	}
}

// planError reports whether an error is one that a plan can tell.
func planError(err error) bool { return errors.As(err, new(*psi.Error)) }

// save writes what the hosts are like into a file.
func save(name string, req job.Request, snap job.Snapshot, fail func(error)) {
	if err := writeFile(name, func(w io.Writer) error { return whatif.Save(w, req, snap) }); err != nil {
		fail(fmt.Errorf("--save-cluster-state: %w", err))
	}
}

// viewOf is what there is to tell of a plan. route tells how a host would be reached; nil:
// none would, since the cluster is in a file.
func viewOf(o whatif.Outcome, environ []string, route func(job.NodeDef) string) show.View {
	v := show.View{Request: o.Request, Snapshot: o.Snapshot, Plan: o.Plan, Err: o.Err, Warnings: o.Warnings}
	if route != nil {
		v.Route, v.Environ, v.Offers = route, environ, offers(o, environ)
	}
	return v
}

// offers tells by what the ranks of each section find their helper (PMIX-6): on this machine it is
// looked at, on others their helpers will.
func offers(o whatif.Outcome, environ []string) (lines []string) {
	for i, app := range o.Request.Apps {
		var elsewhere []string
		here := ""
		for _, n := range o.Plan.Nodes {
			switch {
			case !slices.ContainsFunc(n.Ranks, func(r job.RankPlan) bool { return r.App == i }):
			case n.Node >= 0 && n.Node < len(o.Snapshot.Nodes) && o.Snapshot.Nodes[n.Node].Local:
				here = offerHere(app, environ)
			default:
				elsewhere = append(elsewhere, n.Name)
			}
		}
		section := ""
		if len(o.Request.Apps) > 1 {
			section = fmt.Sprintf("section %d: ", i+1)
		}
		switch {
		case app.PMI != "" && app.PMI != job.OfferAuto:
			lines = append(lines, fmt.Sprintf("%s%s (--pmi)", section, app.PMI))
			continue
		case here != "":
			lines = append(lines, section+here)
		}
		if elsewhere != nil {
			lines = append(lines, fmt.Sprintf("%sas the program on %s is linked", section, hostlist.Fold(elsewhere)))
		}
	}
	return lines
}

// showPlan writes a plan in the form that was asked for: one JSON object, which also
// tells what is wrong, or a text. Pictures go where they do not mix with JSON.
func showPlan(line option.Line, sys System, o whatif.Outcome, route func(job.NodeDef) string) error {
	v := viewOf(o, sys.Environ, route)
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
		err = told{o.Err}
	}
	return err
}

// A pictures says what is to be told of a job before it starts (DIAG-2, DIAG-4).
type pictures struct{ topo, hosts, byNode, byRank, choice bool }

func wanted(j option.Job) pictures {
	mapped := j.Displays("map", "map-devel")
	full := j.Displays("map-devel") || j.Verbosity > 1
	return pictures{
		topo: j.Displays("topo"), hosts: j.Displays("allocation", "alloc"),
		byNode: mapped && !full, byRank: mapped && full,
	}
}

// seen draws what is known when the hosts have been looked at.
func (p pictures) seen(v show.View) (text string) {
	if p.hosts {
		text += "hosts:\n" + show.Hosts(v)
	}
	if p.topo {
		text += show.Topology(v.Snapshot.Nodes)
	}
	return text
}

// planned draws what is known when the ranks have their places.
func (p pictures) planned(v show.View) (text string) {
	if p.choice {
		text += show.Choice(v)
	}
	if p.byNode || p.byRank {
		text += "ranks:\n"
	}
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
	p.choice = line.Job.Verbosity > 0
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
