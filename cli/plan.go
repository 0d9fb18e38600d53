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
	"remshell/userfile"
)

// This file implements --plan and --dry-run, and prints the displays of a run's plan.

// planFromState plans a job for a cluster that a file describes, for --plan or --dry-run with --cluster-state
// FILE (placement.md 9). It connects to no host. The error is nil if all ranks could be placed.
func planFromState(line option.Line, sys System) error {
	return printPlan(line, sys, newInputs(sys).PlanFromState(line), nil)
}

// planOffline plans a job without connecting to other hosts (--no-probe). It uses only the data in files and options.
func (c *invocation) planOffline() error {
	local := func() (p job.Probe, attrs job.Attributes, err error) {
		if p, err = probeLocal(c.sys); err == nil && c.req.WantAttributes {
			attrs = localAttributes(c.sys)
		}
		return p, attrs, err
	}
	err := printPlan(c.line, c.sys, request.PlanOffline(c.req, c.warnings, local), routeOf(c.env.Dialer))
	if err == nil {
		flushPrinter(c.env.Err)
	}
	return err
}

// planOnly probes the hosts and prints the plan, but starts no ranks. With --dry-run it also checks that the
// programs exist on the hosts.
func (c *invocation) planOnly(ctx context.Context) error {
	var o simulate.Outcome
	decide := func(snap job.Snapshot) job.Plan {
		o = simulate.Decide(c.req, snap, c.warnings)
		if !c.line.Job.DryRun {
			return job.Plan{}
		}
		return o.Plan
	}
	refusal, err := reserve.Rehearse(ctx, c.req, c.env.Env, decide)
	if err != nil {
		if !c.req.SkipUnreachable || !errors.As(err, new(*reserve.HostsError)) {
			return err
		}
		decide(job.Snapshot{}) // if no host can be reached, the plan has the error no-candidates, with the reasons
	}
	if err := cmp.Or(printPlan(c.line, c.sys, o, routeOf(c.env.Dialer)), refusal); err != nil {
		return err
	}
	flushPrinter(c.env.Err)
	return nil
}

// drawTopology probes the hosts and prints their topology (--display topo without a program).
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

// routeOf returns a function that describes how d reaches a node (rule DIAG-1). The description is empty if d is not a
// transport.Transport.
func routeOf(d node.HelperDialer) func(job.NodeDef) string {
	transp, ok := d.(transport.Transport)
	return func(def job.NodeDef) string {
		if !ok {
			return ""
		}
		text, err := transp.Route(node.ToHost(def))
		if err != nil {
			return oneLineError(err)
		}
		return text
	}
}

// isPlanError reports whether err is an error that the JSON of a plan can contain.
func isPlanError(err error) bool { return errors.As(err, new(*psi.Error)) }

// saveState writes the request and the state of the hosts to a file. If that fails, it calls fail with the
// error.
func saveState(name string, req job.Request, snap job.Snapshot, fail func(error)) {
	if err := userfile.Write(name, func(w io.Writer) error { return simulate.Save(w, req, snap) }); err != nil {
		fail(fmt.Errorf("--save-cluster-state: %w", err))
	}
}

// jobViewOf returns a plan in the form that package format prints. route describes how a host is reached. If route is
// nil, the view says neither how hosts are reached nor which PMI is offered.
func jobViewOf(o simulate.Outcome, environ []string, route func(job.NodeDef) string) format.JobView {
	v := format.JobView{Request: o.Request, Snapshot: o.Snapshot, Plan: o.Plan, Err: o.Err, Warnings: o.Warnings}
	if route != nil {
		v.RouteOf, v.Environ, v.PMIOffers = route, environ, pmiOffers(o, environ)
	}
	return v
}

// pmiOffers returns a line for each app context that says which PMI its ranks may use (rule PMIX-6). It
// examines the program on this machine. When the job starts, helpers examine it on the other hosts.
func pmiOffers(o simulate.Outcome, environ []string) (lines []string) {
	for i, app := range o.Request.Apps {
		var remoteHosts []string
		offer := ""
		for _, n := range o.Plan.Nodes {
			switch {
			case !slices.ContainsFunc(n.Ranks, func(r job.RankPlan) bool { return r.App == i }):
			case n.Node >= 0 && n.Node < len(o.Snapshot.Nodes) && o.Snapshot.Nodes[n.Node].Local:
				offer = detectLocalPMI(app, environ)
			default:
				remoteHosts = append(remoteHosts, n.Name)
			}
		}
		prefix := ""
		if len(o.Request.Apps) > 1 {
			prefix = fmt.Sprintf("app context %d: ", i+1)
		}
		switch {
		case app.PMIOffer != "" && app.PMIOffer != job.PMIOfferAuto:
			lines = append(lines, fmt.Sprintf("%s%s (--pmi)", prefix, app.PMIOffer))
			continue
		case offer != "":
			lines = append(lines, prefix+offer)
		}
		if remoteHosts != nil {
			lines = append(lines, prefix+"the PMI version depends on the MPI library of the program on "+hostlist.Fold(remoteHosts))
		}
	}
	return lines
}

// printPlan prints a plan as text or as one JSON object, which can contain an error. If it prints JSON to standard
// output, it prints the tables of --display to standard error.
func printPlan(line option.Line, sys System, o simulate.Outcome, route func(job.NodeDef) string) error {
	v := jobViewOf(o, sys.Environ, route)
	shown := wantedDisplays(line.Job).formatAll(v)
	var err error
	switch file := line.Job.JSON; {
	case line.Job.Plan, file == "-":
		io.WriteString(sys.Err, shown)
		var b bytes.Buffer
		if err = simulate.Write(&b, o); err == nil {
			_, err = sys.Out.Write(format.EscapeJSON(b.Bytes()))
		}
	case file != "":
		_, err = io.WriteString(sys.Out, shown)
		if err == nil {
			err = userfile.Write(file, func(w io.Writer) error { return simulate.Write(w, o) })
		}
	default:
		_, err = io.WriteString(sys.Out, shown+format.DryRun(v))
	}
	if err == nil && !o.HasPlan() {
		err = reportedError{o.Err}
	}
	return err
}

// displays says which tables and lists to print before a job starts (--display; rules DIAG-2, DIAG-4).
type displays struct{ topo, hosts, byNode, byRank, choice bool }

// wantedDisplays returns the displays that the options ask for.
func wantedDisplays(j option.JobOptions) displays {
	mapped := j.Displays("map", "map-devel")
	full := j.Displays("map-devel") || j.Verbosity > 1
	return displays{
		topo: j.Displays("topo"), hosts: j.Displays("allocation", "alloc"),
		byNode: mapped && !full, byRank: mapped && full,
	}
}

// formatProbed returns the text of the displays that show the probed hosts. These displays need no plan.
func (p displays) formatProbed(v format.JobView) (text string) {
	if p.hosts {
		text += "hosts:\n" + format.Hosts(v)
	}
	if p.topo {
		text += format.Topology(v.Snapshot.Nodes)
	}
	return text
}

// formatPlanned returns the text of the displays that need the plan.
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

// formatAll returns the text of all requested displays. If the view contains an error, it leaves out displays
// that need the plan.
func (p displays) formatAll(v format.JobView) string {
	if v.Err != nil {
		return p.formatProbed(v)
	}
	return p.formatProbed(v) + p.formatPlanned(v)
}

// setDisplays sets callbacks in env that print each requested display as soon as its data is available.
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
