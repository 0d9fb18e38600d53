package request

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
)

// This file makes the request of a job that was saved, and is resumed (survive.md 6): all of it is as it was,
// but for what may be said beside --resume.

// restartable are the options beside --resume that change how a job survives, by their canonical names.
var restartable = []string{"restart", "restart-on", "restart-delay", "restart-args", "restart-fence", "spares", "min-nodes", "min-ranks", "soft", "timeout", "wait"}

// outputs are those of where output goes, which all go together.
var outputs = []string{"label", "prepend-pattern", "outfile-pattern", "errfile-pattern", "output-filename", "output",
	"output-from", "ordered-output", "collapse"}

// telling are those of what mpiexec tells, and of how hosts are found and reached.
var telling = []string{"resume", "again", "save-job", "plan", "dry-run", "probe", "json", "report", "report-every", "trace", "trace-svg", "verbose", "color", "progress",
	"host", "hostfile", "nodes", "cluster", "rmk", "rm-file", "batch-option"}

// Changeable reports what of a line of --resume cannot be said there (SV-21); nil: nothing.
func Changeable(line option.Line, saved job.Request) error {
	if len(line.Sections) > 1 || line.Sections[0].Program != "" {
		return &fault.Error{Text: "--resume: the program is that of the saved job", Remedy: "leave it out; --restart-args WORDS gives it further arguments"}
	}
	allowed := slices.Concat(restartable, outputs, telling, option.Reaching)
	for _, g := range line.Said() {
		switch {
		case slices.Contains(allowed, g.Name):
		case g.Name == "n":
			return &fault.Error{Text: fmt.Sprintf("--resume: %s cannot be changed (the saved job has %s)", g.Spelled, counts(saved)),
				Remedy: "with --min-ranks or -soft it may shrink"}
		default:
			return &fault.Error{Text: fmt.Sprintf("--resume: %s cannot be changed: it is as the saved job has it", g.Spelled),
				Remedy: "hosts may be, -timeout, --wait, --restart and its kin, --spares, --min-nodes, --min-ranks, -soft, and where output goes"}
		}
	}
	return nil
}

// counts are the ranks of the sections, as they were asked for: "16", "4 : 4".
func counts(req job.Request) string {
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

// Resumed is the request of a saved job, as a line of --resume has it, which may be changed so.
func (w World) Resumed(saved job.Request, line option.Line) (job.Request, []job.Note, error) {
	req, said := saved, make(map[string]bool)
	for _, g := range line.Said() {
		said[g.Name] = true
	}
	var notes []job.Note
	var err error
	if line.NamesHosts() || w.Grant != nil {
		notes, err = w.otherHosts(&req, line)
	} else {
		err = w.sameHosts(&req, line.Job)
	}
	if err != nil {
		return req, notes, err
	}
	req.User = w.Local.User
	if said["timeout"] {
		req.Limits.Run = line.Job.Timeout.Duration()
	}
	if said["wait"] {
		req.Wait, req.Limits.Wait = line.Job.Wait.Text != "no", line.Job.Wait.Most
	}
	if said["min-nodes"] {
		req.Skip, req.Least = true, line.Job.MinNodes
	}
	if said["soft"] {
		req.Apps = slices.Clone(req.Apps)
		last := &req.Apps[len(req.Apps)-1]
		last.N, last.Soft = 0, line.Sections[0].Soft.Members
	}
	if slices.ContainsFunc(outputs, func(name string) bool { return said[name] }) {
		s, err := w.streams(line.Job)
		if err != nil {
			return req, notes, err
		}
		s.Stdin, s.From, s.PTY = req.Streams.Stdin, req.Streams.From, req.Streams.PTY
		s.Raw = s.Raw || s.PTY != nil
		req.Streams = s
	}
	err = restarted(&req, line.Job, said)
	return req, notes, err
}

// restarted changes how the job is started again.
func restarted(req *job.Request, j option.Job, said map[string]bool) error {
	r := &req.Restart
	if !said["restart"] {
		j.Restart.Most = r.Most // what is said beside it is of the restarts that are left
	}
	fresh, err := restarts(j, req.Limits.Grace)
	r.Kept = true
	for name, take := range map[string]func(){
		"restart": func() { r.Most = fresh.Most }, "restart-on": func() { r.On, r.Codes = fresh.On, fresh.Codes },
		"restart-delay": func() { r.Delay = fresh.Delay }, "restart-args": func() { r.Args = fresh.Args },
		"restart-fence": func() { r.Fence = fresh.Fence }, "min-ranks": func() { r.Least = fresh.Least },
		"spares": func() { r.Spares = fresh.Spares },
	} {
		if said[name] {
			take()
		}
	}
	if r.Most > 0 && r.On == nil {
		r.On = fresh.On
	}
	if r.Most > 0 && req.Ends.KeepAll {
		return &fault.Error{Text: "--restart and -disable-auto-cleanup exclude each other"}
	}
	return err
}

// otherHosts has the job run on the hosts that the line names, or a batch system has given.
func (w World) otherHosts(req *job.Request, line option.Line) ([]job.Note, error) {
	if req.RankFile != nil {
		return nil, &fault.Error{Text: "--resume: hosts cannot be changed: the saved job says where each rank goes", Remedy: "leave them out"}
	}
	s := &line.Sections[0]
	s.Program, s.N = req.Apps[0].Argv[0], 0
	for _, app := range req.Apps {
		s.N += app.N
	}
	fresh, notes, err := Make(line, w)
	if err != nil {
		return notes, err
	}
	threads := len(req.Nodes) > 0 && !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { return !n.CountThreads })
	req.Nodes, req.Turns, req.Home, req.Skip, req.RM = fresh.Nodes, fresh.Turns, fresh.Home, req.Skip || fresh.Skip, fresh.RM
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

// sameHosts has it run on its own, as they are reached from here.
func (w World) sameHosts(req *job.Request, j option.Job) error {
	if req.RM != nil {
		return &fault.Error{Text: fmt.Sprintf("--resume: the hosts were those of %s job %s, of which this is no part", req.RM.Name, req.RM.Job),
			Remedy: "name hosts with -host, or resume it inside of a job"}
	}
	here := func(n *job.NodeDef) {
		n.Local = !j.NoAutofork && n.User == "" && n.Port == 0 && w.Local.Is(cmp.Or(n.Address, n.Host))
	}
	req.Nodes = slices.Clone(req.Nodes)
	for i := range req.Nodes {
		here(&req.Nodes[i])
	}
	req.Spawn.List = slices.Clone(req.Spawn.List)
	for i := range req.Spawn.List {
		here(&req.Spawn.List[i])
	}
	q := &req.Queue
	q.Spare = slices.Clone(q.Spare)
	for i := range q.Spare {
		here(&q.Spare[i])
	}
	if q.Host != nil {
		first := *q.Host
		here(&first)
		q.Host = &first
	}
	outer, _ := w.env("MPIEXEC_JOBID")
	q.Inside, q.From = job.ID(outer), w.Local.Names[0]
	return nil
}
