package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/format"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/usererr"
)

// This file implements the commands of mpijob that are about jobs, and the options of mpiexec that mean the same: ps, queue,
// and those of features, such as status and end. Each reads the ledgers of the hosts.

// programAsHosts treats the words in the position of the program as hosts, as in mpiexec --ps n1 n2. They take
// precedence over hosts in variables and in the user's configuration.
func programAsHosts(line option.Line) (option.Line, error) {
	app := &line.Apps[0]
	if len(line.Apps) > 1 {
		return line, &usererr.Error{Text: line.Command(line.Query.Command) + " does not start a program, so app contexts (:) are not allowed", Remedy: "as arguments, give only hosts"}
	}
	if app.Program != "" && !line.NamesHosts() {
		app.Host, app.HostFile = nil, ""
		line.Job.Nodes, line.Job.RMK, line.Job.Simulate = "", "none", 0
	}
	for _, word := range append([]string{app.Program}, app.Args...) {
		var hosts option.HostExpr
		if word == "" {
			continue
		}
		if err := hosts.UnmarshalText([]byte(word)); err != nil {
			return line, err
		}
		app.Host = append(app.Host, hosts)
	}
	app.Program, app.Args = "", nil
	return line, nil
}

// checkHostsGiven returns an error if the command line names no hosts although its query needs them.
func checkHostsGiven(line option.Line) error {
	query, is := setup.HostQueryOf(line.Query.Command)
	if !is || !query.NeedsHosts || line.Apps[0].Program != "" || line.NamesHosts() {
		return nil
	}
	return &usererr.Error{Text: line.Query.Command + ": no host is given", Remedy: "give at least one host: " + line.Command(line.Query.Command, "HOST")}
}

// answerJobQuery carries out a query about jobs. It prints the contents of the ledgers (directories in which the
// hosts' jobs are recorded), or sends a signal or a control request to a job.
func (c *invocation) answerJobQuery(ctx context.Context) (code int, err error) {
	q, req, env := c.line.Query, c.req, c.env
	if query, is := setup.HostQueryOf(q.Command); is {
		err := query.Answer(ctx, c.line, req, env.Env)
		if err == nil {
			flushPrinter(env.Err)
		}
		return job.ExitOK, err
	}
	req.SkipUnreachable, req.Queue.Required = true, false // print those that can be read
	var ref job.JobRef
	if q.Command != "ps" && q.Command != "queue" {
		if ref, err = job.ParseRef(q.Job); err != nil {
			return 0, &usererr.Error{Text: err.Error(), Remedy: c.line.Command("ps") + " lists jobs and users"}
		}
	}
	control, isRequest := setup.JobRequestOf(q.Command)
	switch {
	case q.Command == "signal":
		err := c.signalJob(ctx, req, ref, q.Signal)
		if err == nil {
			flushPrinter(env.Err)
		}
		return job.ExitOK, err
	case q.Command == "evict":
		return job.ExitOK, c.evictJob(ctx, req, ref)
	case isRequest:
		return job.ExitOK, c.sendControlRequest(ctx, req, ref, control)
	}
	listing, ofFeature := setup.ListingOf(q.Command, c.line)
	if !ofFeature {
		listing = coreListings[q.Command]
	}
	pages, err := listing.Read(ctx, c.line, req, env.Env, &ref)
	if err != nil {
		return 0, err
	}
	unread := 0
	for _, p := range pages {
		if p.Err != "" {
			unread++
			env.Report(fmt.Sprintf("%s: %s", p.Node, p.Err))
		}
	}
	if unread > 0 && unread == len(pages) { // nothing is known, so "no jobs" would be wrong
		return 0, reportedError{errors.New("cannot read the list of jobs on any host")}
	}
	all := format.NewLedger(pages, time.Now())
	text, found := listing.Format(all, ref)
	if !found {
		return 0, noJobError(c.line, ref)
	}
	if c.line.Job.JSON != "" {
		text = all.FormatJSON(ref)
	}
	_, err = io.WriteString(c.sys.Out, text)
	if err == nil {
		flushPrinter(env.Err)
	}
	return job.ExitOK, err
}

// coreListings maps the subcommands of mpijob that belong to no feature to the listings that they print.
var coreListings = map[string]setup.Listing{
	"ps":    {Read: readLedgers, Format: func(l format.Ledger, _ job.JobRef) (string, bool) { return l.FormatJobs(), true }},
	"queue": {Read: readLedgers, Format: func(l format.Ledger, _ job.JobRef) (string, bool) { return l.FormatQueue(), true }},
}

// readLedgers reads the ledgers, which are the directories in which jobs are recorded on each host.
func readLedgers(ctx context.Context, _ option.Line, req job.Request, env reserve.Env, _ *job.JobRef) ([]job.LedgerListing, error) {
	return reserve.Ledgers(ctx, req, env)
}

// sendControlRequest sends a control request to a job (survive.md 7). It returns an error if the job does not
// carry out the request.
func (c *invocation) sendControlRequest(ctx context.Context, req job.Request, ref job.JobRef, control setup.JobRequest) error {
	request, err := control.Request(c.line)
	if err != nil {
		return err
	}
	asked, err := reserve.Control(ctx, req, c.env.Env, ref, request)
	switch {
	case err != nil:
		return err
	case asked.Node == "":
		return noJobError(c.line, ref)
	case asked.Reply.State != job.ReplyDone:
		return &usererr.Error{Text: fmt.Sprintf("%s: %s", asked.Node, asked.Reply.Text), Remedy: controlRequestRemedy(c.line, control.Needs, asked, job.JobRef{Job: asked.Job, User: ref.User})}
	}
	if asked.Reply.Text != "" {
		c.env.Report(fmt.Sprintf("job %s: %s", asked.Job, asked.Reply.Text))
	}
	flushPrinter(c.env.Err)
	return nil
}

// noJobError returns the error for a job that no host has recorded in its ledger (directory of jobs).
func noJobError(line option.Line, ref job.JobRef) error {
	text := fmt.Sprintf("there is no job %s", ref)
	if ref == (job.JobRef{Job: job.NewestJob}) {
		text = "you have no job on these hosts"
	}
	return &usererr.Error{Text: text, Remedy: fmt.Sprintf("%s lists running jobs, and %s lists waiting requests; for a job on other hosts, give one of them as an argument", line.Command("ps"), line.Command("queue"))}
}

// controlRequestRemedy returns what the user can do after a job has refused a control request, or "". It returns advice
// if the job was started without an option that the request needs.
func controlRequestRemedy(line option.Line, advice string, result reserve.ControlResult, ref job.JobRef) string {
	text := result.Reply.Text
	switch {
	case strings.HasPrefix(text, job.SuspendedText):
		return line.Command("resume", ref.String()) + " continues the job"
	case result.StillHasClaim:
		return "as root, or as the user of the job, run: " + line.Command("evict", ref.String(), result.Node)
	case strings.HasPrefix(text, job.NotAllowedText):
		return fmt.Sprintf("only root and the administrators of %s may do this", result.Node)
	case strings.HasPrefix(text, job.NoAnswerText):
		return "try again later; if the mpiexec of the job is stopped or hangs, kill the ranks on this host: " + line.Command("signal", "KILL", ref.String(), result.Node)
	case strings.HasPrefix(text, job.LauncherStoppedText):
		return "continue mpiexec with fg in its shell, or kill the ranks on this host: " + line.Command("signal", "KILL", ref.String(), result.Node)
	case text == job.StartingText:
		return "run the command again in a few seconds"
	case strings.Contains(text, job.StartedWithoutText):
		return advice
	}
	return ""
}

// signalJob sends a signal to all ranks of a job. It returns the errors of the hosts, or an error if it finds no rank.
func (c *invocation) signalJob(ctx context.Context, req job.Request, ref job.JobRef, number int) error {
	results, err := reserve.SignalJob(ctx, req, c.env.Env, ref, number)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return noJobError(c.line, ref)
	}
	ranks := 0
	var errs []error
	for _, r := range results {
		ranks += r.Ranks
		if r.Err != "" && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == r.Err }) {
			errs = append(errs, errors.New(r.Err))
		}
	}
	if ranks == 0 && len(errs) == 0 {
		errs = append(errs, &usererr.Error{Text: fmt.Sprintf("no rank of job %s was found", ref), Remedy: c.line.Command("ps") + " lists jobs; give a host of this job as an argument"})
	}
	return errors.Join(errs...)
}

// evictJob ends the processes that hold a job's claims and tickets, and reports what was done on each node
// (rule TRUST-19).
func (c *invocation) evictJob(ctx context.Context, req job.Request, ref job.JobRef) error {
	results, err := reserve.Evict(ctx, req, c.env.Env, ref)
	if err != nil {
		return err
	}
	done, left := false, false
	for _, r := range results {
		for _, text := range r.Done {
			done = true
			c.env.Report(fmt.Sprintf("%s: %s", r.Node, text))
		}
		if r.Err != "" {
			c.env.Report(fmt.Sprintf("%s: %s", r.Node, r.Err))
		}
		if r.Err != "" || r.StillHeld {
			left = true
		}
	}
	if !done && !left {
		return noJobError(c.line, ref)
	}
	if left {
		return reportedError{errors.New("some claims or requests of the job could not be removed")}
	}
	flushPrinter(c.env.Err)
	return nil
}
