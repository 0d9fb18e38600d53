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
	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/limit"
	"remshell/psi"
)

// defaultGrace is the time between SIGTERM and SIGKILL (cli.md --kill-grace).
const defaultGrace = 10 * time.Second

// exitNoDir is the exit code where there is no working directory (cli.md EXIT-5).
const exitNoDir = 127

// Make makes a Request of a command line, and warnings.
func Make(line option.Line, w World) (job.Request, []job.Note, error) {
	req, err := w.begun(line.Job)
	if err != nil {
		return req, nil, err
	}
	told, err := newRankPlacement(line, w.Open)
	if err != nil {
		return req, nil, err
	}
	named, list, err := w.named(&req, line, told)
	if err != nil {
		return req, nil, err
	}
	warnings, err := w.place(&req, line, named)
	warnings = append(w.doubts(), warnings...)
	if err == nil {
		err = w.deadline(&req, line.Job)
	}
	if err == nil {
		err = w.lay(&req, line)
	}
	if err == nil {
		err = entryGPUs(req)
	}
	if err == nil && told.by != "" {
		req.Skip = line.Job.SkipUnreachable || line.Job.MinNodes > 0 // the user wrote these hosts down (SSH-6)
		err = told.apply(&req, list)
	}
	if err == nil {
		err = clash(req)
	}
	if err == nil {
		w.surround(&req)
	}
	if err == nil {
		req.Spawn, err = w.spawnHosts(line)
	}
	req.Queue = w.queue(req, line.Job)
	return req, warnings, err
}

// begun is what a request says that has nothing to do with hosts.
func (w World) begun(j option.Job) (job.Request, error) {
	req := job.Request{
		Job:     w.Job,
		User:    w.Local.User,
		Skip:    j.SkipUnreachable || j.MinNodes > 0,
		Least:   j.MinNodes,
		Ends:    ends(j),
		Iface:   string(j.Iface),
		Compat:  launchers(j.EnvCompat),
		Places:  job.Places(j.Places),
		Signals: job.Signals{Forward: j.ForwardSignals.Numbers, Leader: j.LeaderOnly},
		Limits: job.Limits{
			Run: j.Timeout.Duration(), Start: j.StartTimeout.Duration(), Wait: j.Wait.Most, Grace: defaultGrace,
		},
		Universe: j.Universe.Size, Port: j.PMIPort,
	}
	if j.KillGrace != nil {
		req.Limits.Grace = j.KillGrace.Duration()
	}
	var err error
	if req.Restart, err = restarts(j, req.Limits.Grace); err != nil {
		return req, err
	}
	if req.Ckpt, err = w.checkpoints(j); err != nil {
		return req, err
	}
	if req.Bounds, req.Origins, err = w.bounds(j); err != nil {
		return req, err
	}
	if w.Cluster != nil && w.Cluster.Accounts != "" {
		req.Ends.Peaks, req.Ends.Samples = true, true
	}
	req.Ends.Samples = req.Ends.Samples || req.Bounds.Any(limit.Resource.Sampled)
	if req.Streams, err = w.streams(j); err != nil {
		return req, err
	}
	req.Base, req.Given, err = baseEnv(w.Environ, j)
	req.Given = append(req.Given, toldOfCheckpoints(req.Ckpt)...)
	return req, err
}

// silence is how long a helper that was cut off lets its ranks run (doc/adr/0004), and then some.
const silence = 50 * time.Second

// restarts are what a line says of starting again (survive.md 2).
func restarts(j option.Job, grace time.Duration) (job.Restart, error) {
	r := job.Restart{Most: j.Restart.Most, On: j.RestartOn.Kinds, Codes: j.RestartOn.Codes, Args: j.RestartArgs, Least: j.MinRanks, Spares: j.Spares, Fence: silence + grace}
	switch {
	case j.Spares < 0:
		return r, &fault.Error{Text: fmt.Sprintf("--spares: %d is no number of nodes", j.Spares)}
	case j.Spares > 0 && r.Most == 0:
		return r, &fault.Error{Text: "--spares claims nodes for a restart, and there is to be none", Remedy: "say --restart N, or leave --spares out"}
	}
	if r.Kept = j.SaveJob != "" || j.Resume != ""; !r.Several() {
		return job.Restart{}, nil
	}
	if r.On == nil {
		r.On = []job.EndKind{job.ByNode}
	}
	if j.RestartDelay != nil {
		r.Delay = j.RestartDelay.Duration()
	}
	if j.RestartFence.Text != "" {
		r.Fence = j.RestartFence.Most
	}
	if j.KeepAll == "yes" && r.Most > 0 {
		return r, &fault.Error{Text: "--restart and -disable-auto-cleanup exclude each other"}
	}
	return r, nil
}

// named are the hosts that the sections name, the allocation, or else what says where each
// rank goes. list is what named them, in words.
func (w World) named(req *job.Request, line option.Line, told rankPlacement) (named []hostlist.Entry, list string, err error) {
	list = "-host and -hostfile"
	named, err = w.sections(req, line)
	if err == nil && w.Grant != nil && batch.Known(line.Job.RMK) {
		list, named = "the allocation", w.granted()
	}
	if err == nil && len(named) == 0 && line.Job.Nodes == "" {
		list = told.by
		named, err = told.hosts()
	}
	return named, list, err
}

// bounds are the limits of a job: the smallest that line, variable, cluster file and class say, and who says it (RM-55).
func (w World) bounds(j option.Job) (limit.Bounds, limit.Origins, error) {
	bounds, origins := make(limit.Bounds), make(limit.Origins)
	for _, said := range j.Limit {
		limit.Tighten(bounds, origins, said.Bounds, "--limit")
	}
	class, err := w.class(j)
	if w.Cluster != nil {
		limit.Tighten(bounds, origins, w.Cluster.Limits, "[limits] of "+w.Cluster.File)
		limit.Tighten(bounds, origins, class.Limits, fmt.Sprintf("class %s of %s", class.Name(), w.Cluster.File))
	}
	return bounds, origins, err
}

// class is that of a job: the one that was named, else that of all others, if the user may have it.
func (w World) class(j option.Job) (config.Class, error) {
	var classes map[string]config.Class
	if w.Cluster != nil {
		classes = w.Cluster.Classes
	}
	source, named := "--class", j.Class
	if named == "" {
		variable, _ := w.env("PSI_CLASS")
		source, named = "PSI_CLASS", strings.TrimSpace(variable)
	}
	open := func(c config.Class) bool {
		return c.Open(w.Local.User.UID, append(slices.Clone(w.Local.User.GIDs), w.Local.User.GID))
	}
	class, there := classes[cmp.Or(named, "default")]
	if there && (open(class) || named == "") || !there && named == "" {
		return class, nil
	}
	refusal := &psi.Error{Code: "bad-class", Source: source, Token: named, What: "no class"}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		if open(classes[name]) {
			refusal.Allowed = append(refusal.Allowed, name)
		}
	}
	if there {
		refusal.What = "you may not use class"
	}
	return config.Class{}, refusal
}

// ends says which ends of a rank end the job, and what the job's code is.
func ends(j option.Job) job.Ends {
	return job.Ends{
		KeepOnExit: j.KillOnBadExit == "0",
		KeepAll:    j.KeepAll == "yes",
		Status:     j.ExitStatus,
		Stacks:     j.OnTimeout == "stacks",
		Children:   j.Children,
		Sessions:   j.KeepSession || j.Children,
		CleanIPC:   j.CleanIPC,
		Codes:      j.PrintCodes,
		Usage:      j.Consumed,
		Peaks:      consumption(j),
		Samples:    consumption(j),
	}
}

// consumption reports whether somebody wants to know what the job consumes.
func consumption(j option.Job) bool {
	return j.Consumed != "" || j.ReportFile != ""
}

// launchers are those of all --env-compat, each once.
func launchers(lists []option.Compat) (names []string) {
	for _, list := range lists {
		for _, name := range list {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// sections adds the apps of a line, and returns the hosts they name. A section that
// names its own is confined to them.
func (w World) sections(req *job.Request, line option.Line) ([]hostlist.Entry, error) {
	var named []hostlist.Entry
	counted := make(map[int]bool)
	unique := psi.Unique(w.input(line, true))
	for _, s := range line.Sections {
		app, err := newApp(s, line.Job, w.Environ, w.Local)
		if err != nil {
			return nil, err
		}
		if err := w.grouped(&app, line, s); err != nil {
			return nil, err
		}
		hosts, err := w.hosts(s, w.Open, unique)
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			app.Hosts = append(app.Hosts, h.Label())
		}
		if from := s.HostsFrom(); !counted[from] { // a section that inherits offers nothing new
			counted[from] = true
			named = append(named, hosts...)
		}
		req.Apps = append(req.Apps, app)
	}
	return named, nil
}

func newApp(s option.Section, j option.Job, environ []string, here Localhost) (job.App, error) {
	env, err := sectionEnv(environ, s)
	app := job.App{N: s.N, Soft: s.Soft.Members, Argv: append([]string{s.Program}, s.Args...), Env: env, Dir: here.Dir, PMI: job.Offer(s.PMI)}
	if s.Path != "" {
		app.Path = strings.Split(s.Path, ":")
	}
	if j.HybridHosts {
		app.Dir = ""
	}
	app.Dir = cmp.Or(s.Wdir, app.Dir)
	if err != nil || filepath.IsAbs(app.Dir) || j.HybridHosts { // there, or begins in a home
		return app, err
	}
	if here.NoDir != nil {
		return app, &fault.Error{Text: fmt.Sprintf("working directory: %v", here.NoDir), Remedy: "choose one with -wdir", Code: exitNoDir}
	}
	app.Dir = filepath.Join(here.Dir, app.Dir)
	return app, err
}
