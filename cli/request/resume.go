package request

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/job"
	"remshell/usererr"
)

// This file builds the request of a job that --resume continues (survive.md 6). It is the saved request with the
// changes that other options may make together with --resume.

// changeableOptions are options that may be given together with --resume to change how a job survives
// failures, by canonical name.
var changeableOptions = []string{"restart", "restart-on", "restart-delay", "restart-args", "restart-fence", "spares", "min-nodes", "min-ranks", "soft", "timeout", "wait"}

// outputOptions are the options for output. If one of them is given with --resume, all saved output options
// are replaced.
var outputOptions = []string{"label", "prepend-pattern", "outfile-pattern", "errfile-pattern", "output-filename", "output",
	"output-from", "ordered-output", "collapse"}

// reportOptions are options that may be given together with --resume because they concern reports, or how
// hosts are found and reached.
var reportOptions = []string{"resume", "again", "save-job", "plan", "dry-run", "probe", "json", "report", "verbose", "color", "progress",
	"host", "hostfile", "nodes", "cluster", "rmk", "rm-file", "batch-option"}

// CheckChanges returns an error if the command line has an option or a program that is not allowed together
// with --resume (rule SV-21).
func CheckChanges(line option.Line, savedRequest job.Request) error {
	if len(line.Apps) > 1 || line.Apps[0].Program != "" {
		return &usererr.Error{Text: "--resume starts the program of the saved job, so no program may be given", Remedy: "leave out the program; --restart-args WORDS adds arguments"}
	}
	allowed := slices.Concat(changeableOptions, outputOptions, reportOptions, option.TransportOptions)
	for _, g := range line.OptionsOnLine() {
		switch {
		case slices.Contains(allowed, g.Name) || g.MayChange():
		case g.Name == "n":
			return &usererr.Error{Text: fmt.Sprintf("--resume cannot change %s: the number of ranks of the saved job is %s", g.Spelled, rankCountsText(savedRequest)),
				Remedy: "to allow fewer ranks, use --min-ranks or -soft"}
		default:
			return &usererr.Error{Text: fmt.Sprintf("--resume cannot change %s: the saved job determines it", g.Spelled),
				Remedy: "you can change the hosts, -timeout, --wait, --restart and its options, --spares, --min-nodes, --min-ranks, -soft and the options for output"}
		}
	}
	return nil
}

// rankCountsText returns the requested number of ranks of each app context as text, such as "16" or "4 : 4".
func rankCountsText(req job.Request) string {
	var all []string
	for _, app := range req.Apps {
		n := "as many as fit"
		if app.N > 0 {
			n = fmt.Sprint(app.N)
		}
		all = append(all, n)
	}
	return strings.Join(all, " : ")
}

// ResumedRequest returns a saved request with the changes that a command line with --resume makes.
func (w Inputs) ResumedRequest(savedRequest job.Request, line option.Line) (job.Request, []job.Note, error) {
	req, given := savedRequest, make(map[string]bool)
	for _, g := range line.OptionsOnLine() {
		given[g.Name] = true
	}
	var notes []job.Note
	var err error
	if line.NamesHosts() || w.Allocation != nil {
		notes, err = w.useOtherHosts(&req, line)
	} else {
		err = w.useSameHosts(&req, line.Job)
	}
	if err != nil {
		return req, notes, err
	}
	req.User = w.Local.User
	if given["timeout"] {
		req.TimeLimits.Run = line.Job.Timeout.Duration()
	}
	if given["wait"] {
		req.Wait, req.TimeLimits.Wait = line.Job.Wait.Text != "no", line.Job.Wait.Limit
	}
	if given["min-nodes"] {
		req.SkipUnreachable, req.MinNodes = true, line.Job.MinNodes
	}
	if given["soft"] {
		req.Apps = slices.Clone(req.Apps)
		last := &req.Apps[len(req.Apps)-1]
		last.N, last.Soft = 0, line.Apps[0].Soft.Members
	}
	if slices.ContainsFunc(outputOptions, func(name string) bool { return given[name] }) {
		s, err := w.streamsRequest(line.Job)
		if err != nil {
			return req, notes, err
		}
		s.Stdin, s.StdinFile, s.PTY = req.Streams.Stdin, req.Streams.StdinFile, req.Streams.PTY
		s.Raw = s.Raw || s.PTY != nil
		req.Streams = s
	}
	err = changeRestart(&req, line.Job, given)
	return req, notes, err
}

// changeRestart applies the restart options of the command line to a saved request. given contains the names of the
// options that the command line has.
func changeRestart(req *job.Request, j option.JobOptions, given map[string]bool) error {
	r := &req.Restart
	if !given["restart"] {
		j.Restart.Count = r.MaxRestarts // other options apply to the remaining restarts
	}
	fresh, err := restartRequest(j, req.TimeLimits.Grace)
	r.Saved = true
	for name, apply := range map[string]func(){
		"restart": func() { r.MaxRestarts = fresh.MaxRestarts }, "restart-on": func() { r.On, r.Codes = fresh.On, fresh.Codes },
		"restart-delay": func() { r.Delay = fresh.Delay }, "restart-args": func() { r.ExtraArgs = fresh.ExtraArgs },
		"restart-fence": func() { r.MaxFence = fresh.MaxFence }, "min-ranks": func() { r.MinRanks = fresh.MinRanks },
		"spares": func() { r.StandbyNodes = fresh.StandbyNodes },
	} {
		if given[name] {
			apply()
		}
	}
	if r.MaxRestarts > 0 && r.On == nil {
		r.On = fresh.On
	}
	if r.MaxRestarts > 0 && req.EndPolicy.KeepAll {
		return &usererr.Error{Text: "--restart and -disable-auto-cleanup cannot be used together"}
	}
	return err
}

// useOtherHosts makes a resumed job run on hosts that the command line names or that a batch system grants,
// instead of the saved hosts.
func (w Inputs) useOtherHosts(req *job.Request, line option.Line) ([]job.Note, error) {
	if req.FixedPlacements != nil {
		return nil, &usererr.Error{Text: "--resume cannot change the hosts: the saved job has a fixed place for each rank", Remedy: "leave out the options that list hosts"}
	}
	s := &line.Apps[0]
	s.Program, s.N = req.Apps[0].Argv[0], 0
	for _, app := range req.Apps {
		s.N += app.N
	}
	fresh, notes, err := Make(line, w)
	if err != nil {
		return notes, err
	}
	threads := len(req.Nodes) > 0 && !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { return !n.CountThreads })
	req.Nodes, req.HostEntries, req.LocalOnly, req.SkipUnreachable, req.RM = fresh.Nodes, fresh.HostEntries, fresh.LocalOnly, req.SkipUnreachable || fresh.SkipUnreachable, fresh.RM
	for i := range req.Nodes {
		req.Nodes[i].CountThreads = req.Nodes[i].CountThreads || threads
	}
	req.Apps = slices.Clone(req.Apps)
	for i := range req.Apps {
		req.Apps[i].Hosts = nil
	}
	req.Queue = fresh.Queue
	return notes, nil
}

// useSameHosts makes a resumed job run on its saved hosts, and finds out how this machine reaches them.
func (w Inputs) useSameHosts(req *job.Request, j option.JobOptions) error {
	if req.RM != nil {
		name := batch.JobName(req.RM.Name, req.RM.Job)
		return &usererr.Error{Text: fmt.Sprintf("--resume: the saved job ran on the hosts of %s, but this mpiexec does not run inside %s", name, name),
			Remedy: "give hosts with -host, or resume inside a job of the batch system"}
	}
	setLocal := func(n *job.NodeDef) {
		n.Local = !j.NoAutofork && n.User == "" && n.Port == 0 && w.Local.Matches(cmp.Or(n.Address, n.Host))
	}
	req.Nodes = slices.Clone(req.Nodes)
	for i := range req.Nodes {
		setLocal(&req.Nodes[i])
	}
	req.SpawnHosts.List = slices.Clone(req.SpawnHosts.List)
	for i := range req.SpawnHosts.List {
		setLocal(&req.SpawnHosts.List[i])
	}
	q := &req.Queue
	q.StandbyHosts = slices.Clone(q.StandbyHosts)
	for i := range q.StandbyHosts {
		setLocal(&q.StandbyHosts[i])
	}
	if q.Host != nil {
		first := *q.Host
		setLocal(&first)
		q.Host = &first
	}
	outer, _ := w.lookupEnv("MPIEXEC_JOBID")
	q.ParentJob, q.LauncherHost = job.ID(outer), w.Local.Names[0]
	return nil
}
