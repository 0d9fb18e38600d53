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
	"remshell/format"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/psi"
	"remshell/simulate"
	"remshell/transport"
)

// This file answers --plan and --dry-run, and draws what a run shows of its plan.

// planFromState answers --plan or --dry-run with --cluster-state FILE (placement.md 9).
// Nobody is reached. The code is 0 if ranks were placed.
func planFromState(line option.Line, sys System) error {
	return printPlan(line, sys, newInputs(sys).PlanFromState(line), nil)
}

// planOffline plans with what was written down of the hosts (--no-probe).
func (c *invocation) planOffline() error {
	local := func() (p job.Probe, t job.Attributes, err error) {
		if p, err = probeLocal(c.sys); err == nil && c.req.WantAttributes {
			t = localAttributes(c.sys)
		}
		return p, t, err
	}
	err := printPlan(c.line, c.sys, request.PlanOffline(c.req, c.warnings, local), routeOf(c.env.Dialer))
	if err == nil {
		flushPrinter(c.env.Err)
	}
	return err
}

// planOnly plans for the hosts as they are now, and starts nothing. A dry run looks for the program, too.
func (c *invocation) planOnly(ctx context.Context) error {
	var o simulate.Outcome
	decide := func(snap job.Snapshot) job.Plan {
		o = simulate.Decide(c.req, snap, c.warnings)
		if !c.line.Job.DryRun {
			return job.Plan{}
		}
		return o.Plan
	}
	refused, err := reserve.Rehearse(ctx, c.req, c.env.Env, decide)
	if err != nil {
		if !c.req.SkipUnreachable || !errors.As(err, new(*reserve.HostsError)) {
			return err
		}
		decide(job.Snapshot{}) // that none of many nodes is up is a plan's own answer: no-candidates, with reasons
	}
	if err := cmp.Or(printPlan(c.line, c.sys, o, routeOf(c.env.Dialer)), refused); err != nil {
		return err
	}
	flushPrinter(c.env.Err)
	return nil
}

// drawTopology draws the hosts as they are now (--display topo without a program).
func (c *invocation) drawTopology(ctx context.Context) error {
	snap, err := reserve.Survey(ctx, c.req, c.env.Env)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.sys.Out, wantedDisplays(c.line.Job).formatProbed(format.JobView{Request: c.req, Snapshot: snap}))
	if err == nil {
		flushPrinter(c.env.Err)
	}
	return err
}

// routeOf tells how a dialer would reach a node, as far as it tells (DIAG-1).
func routeOf(d node.HelperDialer) func(job.NodeDef) string {
	way, tells := d.(transport.Transport)
	return func(def job.NodeDef) string {
		if !tells {
			return ""
		}
		text, err := way.Route(node.ToHost(def))
		if err != nil {
			return oneLineError(err)
		}
		return text
	}
}

// isPlanError reports whether an error is one that a plan can tell.
func isPlanError(err error) bool { return errors.As(err, new(*psi.Error)) }

// saveState writes what the hosts are like into a file.
func saveState(name string, req job.Request, snap job.Snapshot, fail func(error)) {
	if err := writeFile(name, func(w io.Writer) error { return simulate.Save(w, req, snap) }); err != nil {
		fail(fmt.Errorf("--save-cluster-state: %w", err))
	}
}

// jobViewOf is what there is to tell of a plan. route tells how a host would be reached; nil:
// none would, since the cluster is in a file.
func jobViewOf(o simulate.Outcome, environ []string, route func(job.NodeDef) string) format.JobView {
	v := format.JobView{Request: o.Request, Snapshot: o.Snapshot, Plan: o.Plan, Err: o.Err, Warnings: o.Warnings}
	if route != nil {
		v.RouteOf, v.Environ, v.PMIOffers = route, environ, pmiOffers(o, environ)
	}
	return v
}

// pmiOffers tells by what the ranks of each section find their helper (PMIX-6): on this machine it is
// looked at, on others their helpers will.
func pmiOffers(o simulate.Outcome, environ []string) (lines []string) {
	for i, app := range o.Request.Apps {
		var elsewhere []string
		here := ""
		for _, n := range o.Plan.Nodes {
			switch {
			case !slices.ContainsFunc(n.Ranks, func(r job.RankPlan) bool { return r.App == i }):
			case n.Node >= 0 && n.Node < len(o.Snapshot.Nodes) && o.Snapshot.Nodes[n.Node].Local:
				here = detectLocalPMI(app, environ)
			default:
				elsewhere = append(elsewhere, n.Name)
			}
		}
		section := ""
		if len(o.Request.Apps) > 1 {
			section = fmt.Sprintf("app context %d: ", i+1)
		}
		switch {
		case app.PMIOffer != "" && app.PMIOffer != job.PMIOfferAuto:
			lines = append(lines, fmt.Sprintf("%s%s (--pmi)", section, app.PMIOffer))
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

// printPlan writes a plan in the form that was asked for: one JSON object, which also
// tells what is wrong, or a text. Pictures go where they do not mix with JSON.
func printPlan(line option.Line, sys System, o simulate.Outcome, route func(job.NodeDef) string) error {
	v := jobViewOf(o, sys.Environ, route)
	pictures := wantedDisplays(line.Job).formatAll(v)
	var err error
	switch file := line.Job.JSON; {
	case line.Job.Plan, file == "-":
		io.WriteString(sys.Err, pictures)
		var b bytes.Buffer
		if err = simulate.Write(&b, o); err == nil {
			_, err = sys.Out.Write(format.EscapeJSON(b.Bytes()))
		}
	case file != "":
		_, err = io.WriteString(sys.Out, pictures)
		if err == nil {
			err = writeFile(file, func(w io.Writer) error { return simulate.Write(w, o) })
		}
	default:
		_, err = io.WriteString(sys.Out, pictures+format.DryRun(v))
	}
	if err == nil && !o.HasPlan() {
		err = reportedError{o.Err}
	}
	return err
}

// A displays says what is to be told of a job before it starts (DIAG-2, DIAG-4).
type displays struct{ topo, hosts, byNode, byRank, choice bool }

func wantedDisplays(j option.JobOptions) displays {
	mapped := j.Displays("map", "map-devel")
	full := j.Displays("map-devel") || j.Verbosity > 1
	return displays{
		topo: j.Displays("topo"), hosts: j.Displays("allocation", "alloc"),
		byNode: mapped && !full, byRank: mapped && full,
	}
}

// formatProbed draws what is known when the hosts have been looked at.
func (p displays) formatProbed(v format.JobView) (text string) {
	if p.hosts {
		text += "hosts:\n" + format.Hosts(v)
	}
	if p.topo {
		text += format.Topology(v.Snapshot.Nodes)
	}
	return text
}

// formatPlanned draws what is known when the ranks have their places.
func (p displays) formatPlanned(v format.JobView) (text string) {
	if p.choice {
		text += format.NodeChoice(v)
	}
	if p.byNode || p.byRank {
		text += "ranks:\n"
	}
	if p.byNode {
		text += format.Map(v)
	}
	if p.byRank {
		text += format.Ranks(v)
	}
	return text
}

// formatAll draws both.
func (p displays) formatAll(v format.JobView) string {
	if v.Err != nil {
		return p.formatProbed(v)
	}
	return p.formatProbed(v) + p.formatPlanned(v)
}

// setDisplays has the pictures drawn in a run, each as soon as it can be.
func setDisplays(line option.Line, req job.Request, env *launch.Env) {
	p, save := wantedDisplays(line.Job), env.OnSnapshot
	p.choice = line.Job.Verbosity > 0
	if p == (displays{}) {
		return
	}
	env.OnSnapshot = func(snap job.Snapshot) {
		if save != nil {
			save(snap)
		}
		io.WriteString(env.Err, p.formatProbed(format.JobView{Request: req, Snapshot: snap}))
	}
	env.OnPlan = func(snap job.Snapshot, planned job.Plan) {
		io.WriteString(env.Err, p.formatPlanned(format.JobView{Request: req, Snapshot: snap, Plan: planned}))
	}
}
