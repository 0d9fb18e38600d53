package launch

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"remshell/job"
	"remshell/pmiserver"
)

// A wish is what the info keys of one command of a spawn say that no request has a place
// for.
type wish struct {
	hosts []string // names of nodes; nil: all
	arch  string   // as in GOARCH; empty: any
	soft  []int    // numbers of ranks that would do, descending; nil: only the one asked for
}

// Find finds hosts that a program names, as -host and -hostfile would.
type Find func(list, file string) ([]job.NodeDef, error)

// offspring makes a request of a spawn: what the job asked for holds, and what the
// section of the rank that asks has, but for what the info keys say (MPI-4.1, 11.8.4).
// Unknown keys are ignored.
func offspring(req job.Request, parent job.App, r pmiserver.SpawnRequest, find Find) (job.Request, []wish, error) {
	req.Apps, req.Fixed, req.Wait = nil, nil, false
	req.Nodes, req.Turns = slices.Clone(req.Nodes), slices.Clone(req.Turns)
	req.Limits.Run = 0
	var wishes []wish
	for _, c := range r.Commands {
		app := job.App{N: c.Count, Argv: c.Argv, Dir: parent.Dir, Path: parent.Path, Env: parent.Env, Told: parent.Told, Share: parent.Share}
		w := wish{}
		info, err := withFile(c.Info, parent.Dir)
		if err != nil {
			return req, nil, err
		}
		for _, p := range info {
			if err := w.take(p, c.Count, &app, &req, find); err != nil {
				return req, nil, fmt.Errorf("info key %s: %w", p.Key, err)
			}
		}
		app.Hosts = w.hosts
		req.Apps, wishes = append(req.Apps, app), append(wishes, w)
	}
	if len(wishes) == 1 && wishes[0].hosts != nil { // in the order in which they were named
		req.Sort, req.Turns = "", nil
		for _, name := range wishes[0].hosts {
			req.Turns = append(req.Turns, slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return n.Name == name }))
		}
	}
	return req, wishes, nil
}

// take takes in one info key.
func (w *wish) take(p pmiserver.Pair, count int, app *job.App, req *job.Request, find Find) (err error) {
	switch p.Key {
	case "host", "hosts":
		return w.name(req, p.Value, "", find)
	case "hostfile":
		return w.name(req, "", p.Value, find)
	case "wdir":
		app.Dir = within(app.Dir, p.Value)
	case "path":
		app.Path = filepath.SplitList(p.Value)
	case "arch":
		w.arch = archName(p.Value)
	case "soft":
		w.soft, err = soften(p.Value, count)
	}
	return err
}

// withFile adds to info keys those in the file that the key "file" names, a line each:
// KEY = VALUE. Those that were given directly win.
func withFile(info []pmiserver.Pair, dir string) ([]pmiserver.Pair, error) {
	i := slices.IndexFunc(info, func(p pmiserver.Pair) bool { return p.Key == "file" })
	if i < 0 {
		return info, nil
	}
	file, err := os.Open(within(dir, info[i].Value))
	if err != nil {
		return nil, fmt.Errorf("info key file: %w", err)
	}
	defer file.Close()
	var read []pmiserver.Pair
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if key = strings.TrimSpace(key); key != "" && key[0] != '#' {
			read = append(read, pmiserver.Pair{Key: key, Value: strings.TrimSpace(value)})
		}
	}
	return append(read, info...), nil
}

// within is a path that may be relative to a directory.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// name confines the ranks to hosts. Those that the job does not know are candidates now.
func (w *wish) name(req *job.Request, list, file string, find Find) error {
	if find == nil {
		return fmt.Errorf("hosts cannot be named here")
	}
	defs, err := find(list, file)
	if err != nil {
		return err
	}
	for _, def := range defs {
		i := slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return known(n, def) })
		if i < 0 {
			i = len(req.Nodes)
			def.ID = i
			req.Nodes = append(req.Nodes, def)
			if req.Turns != nil {
				req.Turns = append(req.Turns, i)
			}
		}
		w.hosts = append(w.hosts, req.Nodes[i].Name)
	}
	return nil
}

// known reports whether a host that is named is a node of the job.
func known(n, named job.NodeDef) bool {
	is := func(name string) bool { return name != "" && strings.EqualFold(name, named.Host) }
	return n.Same(named) || is(n.Name) || is(n.Host) || slices.ContainsFunc(n.Aliases, is) || n.Local && named.Local
}

// archName is the name by which probes call an architecture that uname(1) calls otherwise.
func archName(name string) string {
	switch name {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// narrow confines the sections of a spawn to nodes of the architecture they want.
func narrow(req *job.Request, wishes []wish, snap job.Snapshot) {
	for i, w := range wishes {
		if w.arch == "" {
			continue
		}
		req.Apps[i].Hosts = []string{}
		for _, n := range snap.Nodes {
			if n.Arch == w.arch && (w.hosts == nil || slices.Contains(w.hosts, n.Name)) {
				req.Apps[i].Hosts = append(req.Apps[i].Hosts, n.Name)
			}
		}
	}
}

// soften reads the info key "soft": numbers of ranks that would do, as A, A:B or A:B:STEP
// with commas between (MPI-4.1, 11.8.2). Those from 1 to most are returned, the largest
// first.
func soften(text string, most int) (would []int, err error) {
	for item := range strings.SplitSeq(text, ",") {
		var n []int
		for field := range strings.SplitSeq(item, ":") {
			number, err := strconv.Atoi(strings.TrimSpace(field))
			if err != nil {
				return nil, fmt.Errorf("%q is no set of numbers", text)
			}
			n = append(n, number)
		}
		first, last, step := n[0], n[0], 1
		if len(n) > 1 {
			last = n[1]
		}
		if len(n) > 2 {
			step = n[2]
		}
		if step == 0 || len(n) > 3 {
			return nil, fmt.Errorf("%q is no set of numbers", text)
		}
		for i := max(1, min(first, last)); i <= min(most, max(first, last)); i++ {
			if (i-first)%step == 0 && (step > 0) == (last >= first) {
				would = append(would, i)
			}
		}
	}
	slices.Sort(would)
	would = slices.Compact(would)
	slices.Reverse(would)
	return would, nil
}

// lower lowers the largest number of ranks that may be lower. It reports whether there
// was one.
func lower(apps []job.App, wishes []wish) bool {
	best, to := -1, 0
	for i, w := range wishes {
		next := slices.IndexFunc(w.soft, func(n int) bool { return n < apps[i].N })
		if next >= 0 && (best < 0 || apps[i].N > apps[best].N) {
			best, to = i, w.soft[next]
		}
	}
	if best < 0 {
		return false
	}
	apps[best].N = to
	return true
}

// codes are those of a spawn: 0 for each process that runs, 1 for one that was left out;
// nil: all run.
func codes(r pmiserver.SpawnRequest, apps []job.App) (list []int) {
	missing := false
	for i, c := range r.Commands {
		for n := range c.Count {
			code := 0
			if n >= apps[i].N {
				code, missing = 1, true
			}
			list = append(list, code)
		}
	}
	if !missing {
		return nil
	}
	return list
}

// universe is the number of processes that would fit (-usize); 0: nothing is said of it.
func universe(req job.Request, snap job.Snapshot) int {
	if req.Universe != job.SystemSize {
		return req.Universe
	}
	sum, seen := 0, make(map[string]bool)
	for _, n := range snap.Nodes {
		if n.Slots > 0 || !seen[n.Identity] { // slots of two names of a machine add up (HOST-8)
			sum += n.Size()
		}
		seen[n.Identity] = n.Identity != ""
	}
	return sum
}
