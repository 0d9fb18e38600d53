package request

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/config"
	"remshell/hostlist"
	"remshell/job"
	"remshell/limits"
	"remshell/psi"
	"remshell/usererr"
)

// defaultGrace is the default time between SIGTERM and SIGKILL.
const defaultGrace = 10 * time.Second

// exitNoDir is the exit code if the working directory does not exist (cli.md EXIT-5).
const exitNoDir = 127

// Make builds the request for a command line. It also returns warnings about the command line.
func Make(line option.Line, w Inputs) (job.Request, []job.Note, error) {
	req, err := w.newRequest(line.Job)
	if err != nil {
		return req, nil, err
	}
	fixed, err := newRankPlacement(line, w.OpenFile)
	if err != nil {
		return req, nil, err
	}
	named, list, err := w.namedHosts(&req, line, fixed)
	if err != nil {
		return req, nil, err
	}
	warnings, err := w.addPlacement(&req, line, named)
	warnings = append(w.allocationNotes(), warnings...)
	if err == nil {
		err = w.setDeadline(&req, line)
	}
	if err == nil {
		err = w.setLayout(&req, line)
	}
	if err == nil {
		err = checkEntryGPUs(req)
	}
	if err == nil && fixed.option != "" {
		req.SkipUnreachable = line.Job.SkipUnreachable || line.Job.MinNodes > 0 // the user wrote these hosts down (SSH-6)
		err = fixed.applyTo(&req, list)
	}
	if err == nil {
		err = checkConflicts(req)
	}
	if err == nil {
		w.addSurroundings(&req)
	}
	if err == nil {
		req.SpawnHosts, err = w.spawnHostsRequest(line)
	}
	req.Queue = w.queueRequest(req, line.Job)
	return req, warnings, err
}

// newRequest returns a request in which it has set all fields that do not depend on hosts.
func (w Inputs) newRequest(j option.JobOptions) (job.Request, error) {
	req := job.Request{
		Job:             w.Job,
		User:            w.Local.User,
		SkipUnreachable: j.SkipUnreachable || j.MinNodes > 0,
		MinNodes:        j.MinNodes,
		EndPolicy:       endRules(j),
		Interface:       string(j.Iface),
		Compat:          compatLaunchers(j.EnvCompat),
		OMPPlaces:       job.OMPPlaces(j.Places),
		SignalPolicy:    job.SignalPolicy{Forward: j.ForwardSignals.Numbers, ProcessOnly: j.LeaderOnly},
		TimeLimits: job.TimeLimits{
			Run: j.Timeout.Duration(), Start: j.StartTimeout.Duration(), Wait: j.Wait.Limit, Grace: defaultGrace,
		},
		Universe: j.Universe.Size, PMIPort: j.PMIPort,
	}
	if j.KillGrace != nil {
		req.TimeLimits.Grace = j.KillGrace.Duration()
	}
	var err error
	if req.Restart, err = restartRequest(j, req.TimeLimits.Grace); err != nil {
		return req, err
	}
	if req.ResourceLimits, req.LimitOrigins, err = w.jobLimits(j); err != nil {
		return req, err
	}
	if req.Streams, err = w.streamsRequest(j); err != nil {
		return req, err
	}
	req.BaseEnv, req.GlobalEnv, err = baseEnv(w.Environ, j)
	return req, err
}

// reattachTimeout is how long a restart waits for a node whose connection was lost. It is longer than the
// time after which a helper without a connection ends its ranks (doc/adr/0004).
const reattachTimeout = 50 * time.Second

// restartRequest returns the restart policy that the options set (survive.md 2). grace is the time between
// SIGTERM and SIGKILL when ranks are ended.
func restartRequest(j option.JobOptions, grace time.Duration) (job.RestartPolicy, error) {
	r := job.RestartPolicy{MaxRestarts: j.Restart.Count, On: j.RestartOn.Kinds, Codes: j.RestartOn.Codes, ExtraArgs: j.RestartArgs, MinRanks: j.MinRanks, StandbyNodes: j.Spares, MaxFence: reattachTimeout + grace}
	switch {
	case j.Spares < 0:
		return r, &usererr.Error{Text: fmt.Sprintf("--spares: %d is not a number of nodes", j.Spares)}
	case j.Spares > 0 && r.MaxRestarts == 0:
		return r, &usererr.Error{Text: "--spares reserves nodes for a restart, so it needs --restart", Remedy: "add --restart N, or leave out --spares"}
	}
	if r.Saved = j.SaveJob != "" || j.Resume != ""; !r.AllowsSeveral() {
		return job.RestartPolicy{}, nil
	}
	if r.On == nil {
		r.On = []job.EndKind{job.EndByNodeLoss}
	}
	if j.RestartDelay != nil {
		r.Delay = j.RestartDelay.Duration()
	}
	if j.RestartFence.Text != "" {
		r.MaxFence = j.RestartFence.Limit
	}
	if j.KeepAll == "yes" && r.MaxRestarts > 0 {
		return r, &usererr.Error{Text: "--restart and -disable-auto-cleanup cannot be used together"}
	}
	return r, nil
}

// namedHosts returns the hosts that the app contexts name. If they name none, it returns the hosts of the allocation
// or, without an allocation, the hosts in fixed, which contains the placement of each rank. list names the option or
// file from which the hosts come.
func (w Inputs) namedHosts(req *job.Request, line option.Line, fixed rankPlacement) (named []hostlist.Entry, list string, err error) {
	list = "-host and -hostfile"
	named, err = w.addApps(req, line)
	if err == nil && w.Allocation != nil && batch.Known(line.Job.RMK) {
		list, named = "the allocation", w.allocatedHosts()
	}
	if err == nil && len(named) == 0 && line.Job.Nodes == "" {
		list = fixed.option
		named, err = fixed.namedHosts()
	}
	return named, list, err
}

// jobLimits returns the limits of a job and where each was set. Limits can be set by features, the cluster file and the
// job's class. If a limit is set more than once, the smallest value applies (rule RM-55).
func (w Inputs) jobLimits(j option.JobOptions) (limits.Map, limits.Origins, error) {
	bounds, origins := make(limits.Map), make(limits.Origins)
	maps.Copy(bounds, w.Limits)
	maps.Copy(origins, w.LimitOrigins)
	class, err := w.jobClass(j)
	if w.Cluster != nil {
		limits.Tighten(bounds, origins, w.Cluster.Limits, "[limits] of "+w.Cluster.File)
		limits.Tighten(bounds, origins, class.Limits, fmt.Sprintf("class %s of %s", class.Name(), w.Cluster.File))
	}
	return bounds, origins, err
}

// jobClass returns the class of a job. This is the class that the job names or, if it names none, the class
// "default". It returns an error if the named class does not exist or the user may not use it. The zero Class
// means that the job has no class.
func (w Inputs) jobClass(j option.JobOptions) (config.Class, error) {
	var classes map[string]config.Class
	if w.Cluster != nil {
		classes = w.Cluster.Classes
	}
	source, named := "--class", j.Class
	if named == "" {
		variable, _ := w.lookupEnv("PSI_CLASS")
		source, named = "PSI_CLASS", strings.TrimSpace(variable)
	}
	open := func(c config.Class) bool {
		return c.Admits(w.Local.User.UID, append(slices.Clone(w.Local.User.GIDs), w.Local.User.GID))
	}
	class, found := classes[cmp.Or(named, "default")]
	if found && (open(class) || named == "") || !found && named == "" {
		return class, nil
	}
	refusal := &psi.Error{Code: "bad-class", Source: source, Token: named, Problem: "is not a class of the cluster file"}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		if open(classes[name]) {
			refusal.Allowed = append(refusal.Allowed, name)
		}
	}
	if found {
		refusal.Problem = "is a class that you are not allowed to use"
	}
	return config.Class{}, refusal
}

// endRules returns which exits of ranks end the job, and how the job's exit code is computed.
func endRules(j option.JobOptions) job.EndPolicy {
	return job.EndPolicy{
		KeepOnExit:      j.KillOnBadExit == "0",
		KeepAll:         j.KeepAll == "yes",
		StatusRule:      j.ExitStatus,
		LeaveChildren:   j.Children,
		KeepSessions:    j.KeepSession || j.Children,
		ReportExitCodes: j.PrintCodes,
	}
}

// compatLaunchers returns the launchers that all --env-compat options name, without duplicates.
func compatLaunchers(lists []option.Compat) (names []string) {
	for _, list := range lists {
		for _, name := range list {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// addApps adds the app contexts of a command line to the request. It returns the hosts that they name. An app
// context that names hosts runs only on these hosts.
func (w Inputs) addApps(req *job.Request, line option.Line) ([]hostlist.Entry, error) {
	var named []hostlist.Entry
	counted := make(map[int]bool)
	unique := psi.HostsUnique(w.psiInput(line, true))
	for _, s := range line.Apps {
		app, err := newApp(s, line.Job, w.Environ, w.Local)
		if err != nil {
			return nil, err
		}
		if err := w.confineToGroups(&app, line, s); err != nil {
			return nil, err
		}
		hosts, err := w.appHosts(s, w.OpenFile, unique)
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			app.Hosts = append(app.Hosts, h.Label())
		}
		if from := s.HostsFromApp(); !counted[from] { // an app context with inherited hosts adds none
			counted[from] = true
			named = append(named, hosts...)
		}
		req.Apps = append(req.Apps, app)
	}
	return named, nil
}

func newApp(s option.AppContext, j option.JobOptions, environ []string, local Localhost) (job.App, error) {
	env, err := appEnv(environ, s)
	app := job.App{N: s.N, Soft: s.Soft.Members, Argv: append([]string{s.Program}, s.Args...), Env: env, Dir: local.Dir, PMIOffer: job.PMIOffer(s.PMI)}
	if s.Path != "" {
		app.SearchBefore = strings.Split(s.Path, ":")
	}
	if j.HybridHosts {
		app.Dir = ""
	}
	app.Dir = cmp.Or(s.Wdir, app.Dir)
	if err != nil || filepath.IsAbs(app.Dir) || j.HybridHosts { // absolute, or relative to the home directory of each host
		return app, err
	}
	if local.DirErr != nil {
		return app, &usererr.Error{Text: fmt.Sprintf("cannot use the working directory: %v", local.DirErr), Remedy: "choose a directory with -wdir", Code: exitNoDir}
	}
	app.Dir = filepath.Join(local.Dir, app.Dir)
	return app, err
}
