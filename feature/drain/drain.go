/*
Package drain is the feature by which root changes the settings of nodes at run time, with mpijob drain, undrain,
allow and gang. No job starts on a node that is drained.

	mpijob drain n1 n2 --> Change --> helper on each host, run by root --> probe.ChangeState --> state.toml
	                <---- Changed ---'

The next start of a job reads state.toml in the same way as node.toml. Package helper/probe contains the rules for both
files, and package config defines the format of state.toml.
*/
package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/text"
	"remshell/usererr"
)

// Options are the command-line options of this feature.
type Options struct {
	Drain   bool    `name:"--drain" after:"evict" asks:"hosts" excludes:"asks wait" env:"-" topic:"" help:"refuse new ranks on hosts; for root only" command:"drain" commandtakes:"reason" likecommands:"offline close disable down"`
	Reason  string  `name:"--reason" after:"drain" needs:"drain" env:"-" arg:"TEXT" topic:"" help:"tell users why the hosts are drained"`
	Undrain bool    `name:"--undrain" after:"reason" asks:"hosts" excludes:"asks wait" env:"-" topic:"" help:"allow ranks on drained hosts again" command:"undrain" likecommands:"online open enable up"`
	Allow   Setting `name:"--allow" after:"undrain" asks:"hosts" excludes:"asks wait" env:"-" arg:"KEY=VALUE..." topic:"" help:"restrict hosts: users=A groups=B maxproc=N" command:"allow" likecommands:"set restrict"`
	Slice   Slice   `name:"--gang-slice" after:"allow" asks:"hosts" excludes:"asks wait" env:"-" arg:"KEY=VALUE..." topic:"" help:"set the length of --gang turns: slice=TIME" command:"gang" likecommands:"slice"`
}

const texts = `
--drain
  mpiexec --drain HOSTS: no new rank starts on HOSTS until mpiexec --undrain. Running ranks continue. Users
  who request the hosts see the text of --reason. You must be root on the hosts: mpiexec --drain root@n1. The host
  stores the setting in /etc/remshell/state.toml. --ps, --doctor and --dry-run print it.
--reason
  TEXT is one line of at most 200 bytes.
--undrain
  mpiexec --undrain HOSTS: ends --drain. You must be root on the hosts.
--allow
  mpiexec --allow "users=A,B groups=C maxproc=N" HOSTS: only these users and groups may start ranks on
  HOSTS, and at most N ranks run there at a time. The setting applies to jobs that start later. It stays
  until root on the host changes it. A key that is not given does not change. users=any, groups=any and
  maxproc=any remove a restriction. Root may always start ranks. The setting cannot allow anything that
  node.toml of the host forbids.
--gang-slice
  mpiexec --gang-slice slice=30s HOSTS: jobs with --gang take turns of 30 s on HOSTS. The change takes effect
  after about six seconds, also for running jobs. The setting replaces the slice in [gang] of the cluster
  file. If a --gang job runs on one of HOSTS, HOSTS must include all hosts of this job. You must be root on
  the hosts.
`

func init() {
	option.Register[Options](texts)
	query := func(change func(Options) Change) setup.HostQuery {
		return setup.HostQuery{NeedsHosts: true, Answer: func(ctx context.Context, line option.Line, req job.Request, env reserve.Env) error {
			return changeHosts(ctx, line, req, env, change(option.ValuesOf[Options](line)))
		}}
	}
	setup.RegisterHostQuery("drain", query(func(o Options) Change { return Change{Drain: true, Reason: o.Reason} }))
	setup.RegisterHostQuery("undrain", query(func(Options) Change { return Change{Undrain: true} }))
	setup.RegisterHostQuery("allow", query(func(o Options) Change { return Change{Setting: o.Allow} }))
	slice := query(func(o Options) Change { return Change{Slice: time.Duration(o.Slice)} })
	change := slice.Answer
	slice.Answer = func(ctx context.Context, line option.Line, req job.Request, env reserve.Env) error {
		if err := checkGangs(ctx, req, env); err != nil {
			return err
		}
		return change(ctx, line, req, env)
	}
	setup.RegisterHostQuery("gang", slice)
}

// checkGangs returns an error if a gang (a job that shares CPUs in time slices) runs on some of the given hosts and
// also on other hosts. After the change, the slices of that gang would not have the same length on all of its hosts.
func checkGangs(ctx context.Context, req job.Request, env reserve.Env) error {
	pages, err := reserve.Ledgers(ctx, req, env)
	if err != nil {
		return err
	}
	type gang struct{ nodes, named int }
	gangs := make(map[job.Key]gang)
	for _, p := range pages {
		if p.Err != "" {
			return fmt.Errorf("%s: %s", p.Node, p.Err)
		}
		here := make(map[job.Key]bool)
		for _, c := range p.Claims {
			if c.Gang != nil && !here[c.Key()] {
				here[c.Key()] = true
				gangs[c.Key()] = gang{max(gangs[c.Key()].nodes, c.Nodes), gangs[c.Key()].named + 1}
			}
		}
	}
	for key, g := range gangs {
		if g.named < g.nodes {
			return &usererr.Error{Text: fmt.Sprintf("job %s takes turns with other jobs on %s, but you named only %d of them", key.Job, text.Count(g.nodes, "host"), g.named), Remedy: "name all its hosts, which mpijob status shows, or wait until the job has ended"}
		}
	}
	return nil
}

// changeTimeout is how long a host may take to make a change, including lockTimeout.
const changeTimeout = 30 * time.Second

// changeHosts makes a change on all hosts, and reports the new settings of each host. The returned error
// joins one error for each host on which the change failed.
func changeHosts(ctx context.Context, line option.Line, req job.Request, env reserve.Env, change Change) error {
	if err := job.CheckReason(change.Reason); err != nil {
		return &usererr.Error{Text: "--reason: " + err.Error(), Remedy: "give a shorter reason, on one line"}
	}
	replies, err := reserve.AskHosts(ctx, req, env, changeTimeout, &change)
	if err != nil {
		return err
	}
	var failed []error
	for _, r := range replies {
		switch {
		case r.Err != nil:
			failed = append(failed, &usererr.Error{Text: fmt.Sprintf("%s: not changed: %v", r.Node, r.Err), Remedy: usererr.Hint(r.Err)})
		case r.Reply.NotRoot:
			failed = append(failed, &usererr.Error{Text: fmt.Sprintf("%s: only root on %s may change its settings", r.Node, r.Node), Remedy: "if you have root access to that host, use: " + line.Command(line.Query.Command, "root@"+r.Node)})
		case r.Reply.Err != "":
			failed = append(failed, fmt.Errorf("%s: not changed: %s", r.Node, r.Reply.Err))
		default:
			env.Report(r.Node + " " + settingsText(r.Reply.Settings))
		}
	}
	return errors.Join(failed...)
}
