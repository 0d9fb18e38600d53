package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch"
)

// defaultGrace is the time between SIGTERM and SIGKILL (cli.md --kill-grace).
const defaultGrace = 10 * time.Second

// A Here is this machine as a request must know it.
type Here struct {
	Names []string // its host names, the first its own word for itself
	Addrs []netip.Addr
	Dir   string // working directory, as the user calls it
	NoDir error  // why there is none, if it was removed or may not be looked at
}

// isMe reports whether a host expression means this machine (HOST-8).
func (h Here) isMe(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback() || slices.Contains(h.Addrs, addr.Unmap())
	}
	return strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(h.Names, func(n string) bool { return strings.EqualFold(n, host) })
}

// request makes a Request of a command line: pure but for the host files it reads
// by open.
func request(line Line, environ []string, here Here, open func(string) (io.ReadCloser, error)) (job.Request, error) {
	j := line.Job
	req := job.Request{
		Job:      newJobID(time.Now()),
		Overbook: j.Overbook == "yes",
		Forbid:   j.Overbook == "no",
		Skip:     j.SkipUnreachable,
		Ends:     ends(j),
		Limits: job.Limits{
			Run: j.Timeout.Duration(), Start: j.StartTimeout.Duration(), Grace: defaultGrace,
		},
	}
	if j.KillGrace != nil {
		req.Limits.Grace = j.KillGrace.Duration()
	}
	var err error
	if req.Base, err = baseEnv(environ, j); err != nil {
		return req, err
	}
	return req, sections(&req, line, environ, here, open)
}

// ends says which ends of a rank end the job, and what the job's code is.
func ends(j JobOptions) job.Ends {
	return job.Ends{
		KeepOnExit:   j.KillOnBadExit == "0" || j.AutoCleanup == "no",
		KeepOnSignal: j.AutoCleanup == "no",
		Status:       j.ExitStatus,
	}
}

// sections adds the apps of a line and the hosts they name. Hosts are candidates in
// the order of first mention; a section that names its own is confined to them.
func sections(req *job.Request, line Line, environ []string, here Here, open func(string) (io.ReadCloser, error)) error {
	known := make(map[string]int) // index in req.Nodes, by name
	for _, s := range line.Sections {
		app, err := newApp(s, line.Job, environ, here)
		if err != nil {
			return err
		}
		hosts, err := hosts(s, open)
		if err != nil {
			return err
		}
		if err := unsupported(hosts); err != nil {
			return err
		}
		for _, h := range hosts {
			app.Hosts = append(app.Hosts, h.Label())
			if i, ok := known[h.Label()]; !ok {
				known[h.Label()] = len(req.Nodes)
				req.Nodes = append(req.Nodes, candidate(len(req.Nodes), h, here, line.Job.NoAutofork))
			} else if s.namesHosts() {
				if err := more(&req.Nodes[i], h); err != nil {
					return err
				}
			}
		}
		req.Apps = append(req.Apps, app)
	}
	if len(req.Nodes) == 0 {
		req.Nameless = true
		req.Nodes = []job.NodeDef{{Name: here.Names[0], Host: "localhost", Local: true, Origin: "no host named"}}
	}
	return nil
}

func newApp(s Section, j JobOptions, environ []string, here Here) (job.App, error) {
	env, err := sectionEnv(environ, s)
	app := job.App{N: s.N, Argv: append([]string{s.Program}, s.Args...), Env: env, PerNode: s.PPN, Dir: here.Dir}
	for _, dir := range []string{j.GWdir, s.Wdir} {
		if dir != "" {
			app.Dir = dir
		}
	}
	if err != nil || filepath.IsAbs(app.Dir) {
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

// hosts lists what a section names: the list, the file, or what the list takes of
// the file (HOST-9).
func hosts(s Section, open func(string) (io.ReadCloser, error)) ([]hostlist.Entry, error) {
	var list []hostlist.Entry
	for _, expr := range s.Host {
		list = append(list, expr...)
	}
	if s.HostFile == "" {
		return hostlist.Join(list)
	}
	entries, err := hostlist.ReadFile(s.HostFile, open)
	if err != nil {
		return nil, err
	}
	file, err := hostlist.Join(entries)
	if err != nil || len(list) == 0 {
		return file, err
	}
	return hostlist.Filter(file, list)
}

// namesHosts reports whether a section has a host list or file of its own.
func (s Section) namesHosts() bool {
	for _, option := range []string{"host", "hostfile"} {
		if g, ok := s.Origin(option); ok && g.Section == s.Number {
			return true
		}
	}
	return false
}

// more adds what a further section offers of a node: counts add up (HOST-4).
func more(n *job.NodeDef, h hostlist.Entry) error {
	if (n.Slots == 0) != (h.Slots == 0) {
		return &UsageError{fmt.Sprintf("host %s has a slot count in one section and none in another", n.Name), "use one way"}
	}
	n.Slots += h.Slots
	return nil
}

// unsupported refuses what host files may say and we cannot do yet: nothing is
// swallowed silently.
func unsupported(hosts []hostlist.Entry) error {
	var errs []error
	for _, h := range hosts {
		keys := slices.Sorted(maps.Keys(h.Attrs))
		if len(h.Env) > 0 {
			keys = append(keys, "env")
		}
		for _, key := range keys {
			errs = append(errs, &UsageError{Text: fmt.Sprintf("%s: host %s: the key %q is not available yet", written(h), h.Label(), key),
				Remedy: "take it out of the host file"})
		}
	}
	return errors.Join(errs...)
}

// written says where an entry stands.
func written(e hostlist.Entry) string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return e.File
}

// candidate is a host entry as a node to be reached.
func candidate(id int, e hostlist.Entry, here Here, noFork bool) job.NodeDef {
	reach := e.Host
	if e.Address != "" {
		reach = e.Address
	}
	return job.NodeDef{
		ID: id, Name: e.Label(), Host: e.Host, Address: e.Address, User: e.User, Port: e.Port,
		Slots: e.Slots, MaxSlots: e.MaxSlots, Origin: written(e), Local: !noFork && e.User == "" && e.Port == 0 && here.isMe(reach),
	}
}

// newJobID is unique over launchers and time; it is short, since it names the key-
// value space in every line of PMI (pmi-wire.md section 5).
func newJobID(now time.Time) job.ID {
	random := make([]byte, 4)
	rand.Read(random)
	return job.ID(fmt.Sprintf("%x-%d-%s", now.Unix(), os.Getpid(), hex.EncodeToString(random)))
}
