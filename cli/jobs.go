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
	"remshell/format"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/usererr"
)

// This file implements the queries about jobs that run or wait: --ps, --queue, --status JOB, --end JOB, --suspend JOB
// and the like, --signal SIG JOB and --evict JOB. Each reads the ledgers of the hosts.

// isJobQuery reports whether the options request about jobs instead of starting one.
func isJobQuery(j option.JobOptions) bool {
	return len(jobQueries(j)) > 0
}

// programAsHosts takes the words in the place of the program as hosts, as in mpiexec --ps n1 n2. They take precedence
// over hosts of variables and of the user's configuration.
func programAsHosts(line option.Line) (option.Line, error) {
	app := &line.Apps[0]
	if len(line.Apps) > 1 {
		return line, &usererr.Error{Text: "--ps, --queue, --status, --end, --suspend, --resume-job, --checkpoint, --migrate, --signal and --evict start nothing: a lone : has no meaning", Remedy: "name hosts only"}
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

// answerJobQuery prints what the ledgers say, or sends a job a signal or a control request.
func (c *invocation) answerJobQuery(ctx context.Context) (code int, err error) {
	j, req, env := c.line.Job, c.req, c.env
	req.SkipUnreachable, req.Queue.Required = true, false // print those that can be read
	ref, verb, err := parseControlRequest(j)
	if err != nil {
		return 0, err
	}
	if j.Signal.Number != 0 {
		err := signalJob(ctx, req, env, ref, j.Signal.Number)
		if err == nil {
			flushPrinter(env.Err)
		}
		return job.ExitOK, err
	}
	if j.Evict != "" {
		return job.ExitOK, evictJob(ctx, req, env, ref)
	}
	if verb != "" {
		ctl := job.ControlRequest{Verb: verb}
		if ctl.Args, err = (restart.Move{From: j.From, To: j.To}).Args(); err != nil {
			return 0, &usererr.Error{Text: err.Error(), Remedy: "name fewer hosts, or move the job twice"}
		}
		return job.ExitOK, sendControlRequest(ctx, req, env, ref, ctl)
	}
	pages, err := c.readLedgers(ctx, req, &ref)
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
		return 0, reportedError{errors.New("no ledger was read")}
	}
	text, err := formatJobs(format.NewLedger(pages, time.Now()), j, ref)
	if err == nil {
		_, err = io.WriteString(c.sys.Out, text)
	}
	if err == nil {
		flushPrinter(env.Err)
	}
	return job.ExitOK, err
}

// readLedgers reads the ledgers. If ref names a job that obeys this user, the listing says what each of its ranks is
// doing (SV-27). If the job refuses, that is reported, and the listing has only what the ledgers say.
func (c *invocation) readLedgers(ctx context.Context, req job.Request, ref *job.JobRef) ([]job.LedgerListing, error) {
	if ref.Job == "" {
		return reserve.Ledgers(ctx, req, c.env.Env)
	}
	pages, asked, err := reserve.Status(ctx, req, c.env.Env, *ref)
	if err == nil && asked.Job != "" {
		ref.Job = asked.Job
	}
	if err == nil && asked.Reply.Text != "" {
		c.env.Report(fmt.Sprintf("%s: %s", asked.Node, asked.Reply.Text))
	}
	return pages, err
}

// jobQueries returns those options of the line that ask about jobs.
func jobQueries(j option.JobOptions) (options []string) {
	for _, q := range []struct {
		option string
		given  bool
	}{{"--ps", j.PS}, {"--queue", j.ShowQueue}, {"--status", j.Status != ""}, {"--end", j.End != ""}, {"--suspend", j.Suspend != ""}, {"--resume-job", j.ResumeJob != ""},
		{"--checkpoint", j.CkptJob != ""}, {"--migrate", j.Migrate != ""}, {"--signal", j.Signal.Number != 0}, {"--evict", j.Evict != ""}} {
		if q.given {
			options = append(options, q.option)
		}
	}
	return options
}

// parseControlRequest returns the job that the options are about, and the control request for it. verb is empty if
// they are none.
func parseControlRequest(j option.JobOptions) (ref job.JobRef, verb job.Verb, err error) {
	for _, one := range []struct {
		job  string
		verb job.Verb
	}{{j.End, job.VerbEnd}, {j.Suspend, job.VerbSuspend}, {j.ResumeJob, job.VerbResume}, {j.CkptJob, job.VerbCheckpoint}, {j.Migrate, job.VerbMigrate},
		{j.Status, ""}, {j.Evict, ""}, {j.Signal.Job, ""}} {
		if one.job != "" {
			ref, err = job.ParseRef(one.job)
			if err != nil {
				err = &usererr.Error{Text: err.Error(), Remedy: "mpiexec --ps lists jobs and users"}
			}
			return ref, one.verb, err
		}
	}
	return ref, "", nil
}

// sendControlRequest sends a control request to a job (survive.md 7). It returns an error if the request is not
// carried out.
func sendControlRequest(ctx context.Context, req job.Request, env launch.Env, ref job.JobRef, request job.ControlRequest) error {
	asked, err := reserve.Control(ctx, req, env.Env, ref, request)
	switch {
	case err != nil:
		return err
	case asked.Node == "":
		return noJobError(ref)
	case asked.Reply.State != job.ReplyDone:
		return &usererr.Error{Text: fmt.Sprintf("%s: %s", asked.Node, asked.Reply.Text), Remedy: controlRequestRemedy(request.Verb, asked, job.JobRef{Job: asked.Job, User: ref.User})}
	}
	if asked.Reply.Text != "" {
		env.Report(fmt.Sprintf("job %s: %s", asked.Job, asked.Reply.Text))
	}
	flushPrinter(env.Err)
	return nil
}

// noJobError returns the error that no ledger has the job.
func noJobError(ref job.JobRef) error {
	text := fmt.Sprintf("there is no job %s", ref)
	if ref == (job.JobRef{Job: job.NewestJob}) {
		text = "no job of yours runs on these hosts"
	}
	return &usererr.Error{Text: text, Remedy: "mpiexec --ps and --queue list the jobs; name a host of the job"}
}

// controlRequestRemedy returns what the user can do when a job refused a control request. It is empty if there is
// nothing.
func controlRequestRemedy(verb job.Verb, asked reserve.ControlResult, ref job.JobRef) string {
	text := asked.Reply.Text
	switch {
	case strings.HasPrefix(text, job.SuspendedText):
		return fmt.Sprintf("mpiexec --resume-job %s lets it go on", ref)
	case asked.StillHasClaim:
		return fmt.Sprintf("as root, or as its user: mpiexec --evict %s %s", ref, asked.Node)
	case strings.HasPrefix(text, job.NotAllowedText):
		return fmt.Sprintf("root and the administrators of %s may", asked.Node)
	case strings.HasPrefix(text, job.NoAnswerText):
		return fmt.Sprintf("it is being started, or its mpiexec is stopped or hangs; ask again later, or end its ranks there: mpiexec --signal KILL %s %s", ref, asked.Node)
	case strings.HasPrefix(text, job.LauncherStoppedText):
		return fmt.Sprintf("fg in its shell lets it go on; or end its ranks there: mpiexec --signal KILL %s %s", ref, asked.Node)
	case text == job.StartingText:
		return "ask again in a moment"
	case !strings.Contains(text, job.StartedWithoutText):
		return ""
	case verb == job.VerbMigrate:
		return "start the job with --restart N, and with --ckpt-signal SIG or --ckpt-cmd CMD"
	case verb == job.VerbCheckpoint:
		return "start the job with --ckpt-signal SIG or --ckpt-cmd CMD"
	}
	return ""
}

// formatJobs returns the text that the options ask for.
func formatJobs(l format.Ledger, j option.JobOptions, ref job.JobRef) (string, error) {
	status, found := l.FormatStatus(ref)
	switch {
	case j.Status != "" && !found:
		return "", noJobError(ref)
	case j.JSON != "":
		return l.FormatJSON(ref), nil
	case j.Status != "":
		return status, nil
	case j.ShowQueue:
		return l.FormatQueue(), nil
	}
	return l.FormatJobs(), nil
}

// signalJob sends a signal to all ranks of a job. It returns an error if no rank received it.
func signalJob(ctx context.Context, req job.Request, env launch.Env, ref job.JobRef, number int) error {
	results, err := reserve.SignalJob(ctx, req, env.Env, ref, number)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return noJobError(ref)
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
		errs = append(errs, &usererr.Error{Text: fmt.Sprintf("no rank of job %s was found", ref), Remedy: "mpiexec --ps lists the jobs; name its hosts"})
	}
	return errors.Join(errs...)
}

// evictJob ends the processes that hold a job's ledger entries, and reports what was done on each node (TRUST-19).
func evictJob(ctx context.Context, req job.Request, env launch.Env, ref job.JobRef) error {
	results, err := reserve.Evict(ctx, req, env.Env, ref)
	if err != nil {
		return err
	}
	done, left := false, false
	for _, r := range results {
		for _, text := range r.Done {
			done = true
			env.Report(fmt.Sprintf("%s: %s", r.Node, text))
		}
		if r.Err != "" {
			env.Report(fmt.Sprintf("%s: %s", r.Node, r.Err))
		}
		if r.Err != "" || r.StillHeld {
			left = true
		}
	}
	if !done && !left {
		return noJobError(ref)
	}
	if left {
		return reportedError{errors.New("something is left")}
	}
	flushPrinter(env.Err)
	return nil
}
