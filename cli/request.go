package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remshell/cli/option"
	"remshell/hostlist"
	"remshell/job"
	"remshell/launch"
	"remshell/psi"
)

// defaultGrace is the time between SIGTERM and SIGKILL (cli.md --kill-grace).
const defaultGrace = 10 * time.Second

// A Here is this machine as a request must know it.
type Here struct {
	Names []string            // its host names, the first its own word for itself
	Addrs func() []netip.Addr // asked for only if a host is named by address
	Dir   string              // working directory, as the user calls it
	User  job.User
	NoDir error // why there is none, if it was removed or may not be looked at
}

// isMe reports whether a host expression means this machine (HOST-8).
func (h Here) isMe(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback() || slices.Contains(h.Addrs(), addr.Unmap())
	}
	return strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(h.Names, func(n string) bool { return strings.EqualFold(n, host) })
}

// request makes a Request of a command line, and warnings: pure but for the files it
// reads by open.
func request(line option.Line, sc scene) (job.Request, []job.Note, error) {
	req, err := sc.begun(line.Job)
	if err != nil {
		return req, nil, err
	}
	told, err := newFixture(line, sc.open)
	if err != nil {
		return req, nil, err
	}
	named, list, err := sc.named(&req, line, told)
	if err != nil {
		return req, nil, err
	}
	warnings, err := sc.place(&req, line, named)
	if err == nil {
		err = sc.lay(&req, line)
	}
	if err == nil {
		err = entryGPUs(req)
	}
	if err == nil && told.by != "" {
		req.Skip = line.Job.SkipUnreachable || line.Job.MinNodes > 0 // the user wrote these hosts down (SSH-6)
		err = told.apply(&req, list)
	}
	if err == nil {
		req.Spawn, err = sc.spawnHosts(line)
	}
	req.Queue = sc.queue(req, line.Job)
	return req, warnings, err
}

// begun is what a request says that has nothing to do with hosts.
func (sc scene) begun(j option.Job) (job.Request, error) {
	req := job.Request{
		Job:     newJobID(time.Now()),
		User:    sc.here.User,
		Skip:    j.SkipUnreachable || j.MinNodes > 0,
		Least:   j.MinNodes,
		Ends:    ends(j),
		Iface:   string(j.Iface),
		Compat:  launchers(j.EnvCompat),
		Signals: job.Signals{Forward: j.ForwardSignals.Numbers, Leader: j.LeaderOnly, Status: j.StatusSignal},
		Limits: job.Limits{
			Run: j.Timeout.Duration(), Start: j.StartTimeout.Duration(), Wait: j.Wait.Most(), Grace: defaultGrace,
		},
		Universe: j.Universe.Size(), Port: j.PMIPort,
	}
	if j.KillGrace != nil {
		req.Limits.Grace = j.KillGrace.Duration()
	}
	var err error
	if req.Streams, err = streamsOf(j, func(name string) (string, bool) { return job.Lookup(sc.environ, name) }); err != nil {
		return req, err
	}
	req.Base, req.Given, err = baseEnv(sc.environ, j)
	return req, err
}

// named are the hosts that the sections name, the allocation, or else what says where each
// rank goes. list is what named them, in words.
func (sc scene) named(req *job.Request, line option.Line, told fixture) (named []hostlist.Entry, list string, err error) {
	list = "-host and -hostfile"
	named, err = sections(req, line, sc)
	if err == nil && line.Job.RMK != "" {
		list = "the allocation"
		named, err = sc.granted(line, named)
	}
	if err == nil && len(named) == 0 && line.Job.Nodes == "" {
		list = told.by
		named, err = told.hosts()
	}
	return named, list, err
}

// ends says which ends of a rank end the job, and what the job's code is.
func ends(j option.Job) job.Ends {
	return job.Ends{
		KeepOnExit:   j.KillOnBadExit == "0" || j.AutoCleanup == "no",
		KeepOnSignal: j.AutoCleanup == "no",
		Status:       j.ExitStatus,
		Stacks:       j.OnTimeout == "stacks",
		Children:     j.Children,
		Codes:        j.PrintCodes,
		Usage:        j.Consumed,
		Peaks:        j.Consumed || j.ReportFile != "",
	}
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
func sections(req *job.Request, line option.Line, sc scene) ([]hostlist.Entry, error) {
	var named []hostlist.Entry
	counted := make(map[int]bool)
	unique := psi.Unique(sc.input(line, true))
	for _, s := range line.Sections {
		app, err := newApp(s, line.Job, sc.environ, sc.here)
		if err != nil {
			return nil, err
		}
		hosts, err := hosts(s, sc.open, unique)
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

func newApp(s option.Section, j option.Job, environ []string, here Here) (job.App, error) {
	env, err := sectionEnv(environ, s)
	app := job.App{N: s.N, Soft: s.Soft.Members, Argv: append([]string{s.Program}, s.Args...), Env: env, Dir: here.Dir}
	if s.Path != "" {
		app.Path = strings.Split(s.Path, ":")
	}
	if j.HybridHosts {
		app.Dir = ""
	}
	for _, dir := range []string{j.GWdir, s.Wdir} {
		if dir != "" {
			app.Dir = dir
		}
	}
	if err != nil || filepath.IsAbs(app.Dir) || j.HybridHosts { // there, or begins in a home
		return app, err
	}
	if here.NoDir != nil {
		return app, &launch.StartError{Text: fmt.Sprintf("working directory: %v", bare(here.NoDir)),
			Way: "choose one with -wdir", Code: exitNoDir}
	}
	app.Dir = filepath.Join(here.Dir, app.Dir)
	return app, err
}

// bare strips the name of the system call.
func bare(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}

// newJobID is unique over launchers and time; it is short, since it names the key-
// value space in every line of PMI (pmi-wire.md section 5).
func newJobID(now time.Time) job.ID {
	random := make([]byte, 4)
	rand.Read(random)
	return job.ID(fmt.Sprintf("%x-%d-%s", now.Unix(), os.Getpid(), hex.EncodeToString(random)))
}
