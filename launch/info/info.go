/*
Package info makes a request of what a rank wants to spawn: what the info keys say (MPI-4.1, 11.8.4), how many ranks there
may be (TRUST-11, TRUST-12), and to which hosts they may go (TRUST-9).

	spawn.Request --Read--> job.Request, and Wishes: what no request has a place for
	                |
	              Guide: the candidates of the job, and --spawn-hosts
*/
package info

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/pmiserver/spawn"
)

// MaxRanks is how many ranks one spawn may have (TRUST-12).
const MaxRanks = 1 << 20

// infoValues are what the info keys of one command of a spawn say that no request has a place
// for.
type infoValues struct {
	hosts  []string // names of nodes; nil: all
	arch   string   // as in GOARCH; empty: any
	soft   []int    // numbers of ranks that would do, descending; nil: only the one asked for
	layout layout
}

// Constraints are what the info keys of a spawn say that no request has a place for, of each of its commands.
type Constraints []infoValues

// MakeRequest makes a request of a spawn: what the job asked for holds, and what the
// section of the rank that asks has, but for what the info keys say (MPI-4.1, 11.8.4).
// Unknown keys are ignored.
func MakeRequest(req job.Request, parent job.App, r spawn.Request, g *HostPolicy) (job.Request, Constraints, error) {
	if len(r.Commands) == 0 { // a node may say so
		return req, nil, errors.New("no program to spawn")
	}
	req.Apps, req.FixedPlacements, req.Wait = nil, nil, false
	req.NodeSet, req.Balance, req.Contiguous = nodeset.Setting{}, false, "" // it goes to what the job has chosen
	g.SetCandidates(&req)
	req.TimeLimits.Run = 0
	var wishes Constraints
	for _, c := range r.Commands {
		app := job.App{N: c.Count, Argv: c.Argv, Dir: parent.Dir, SearchBefore: parent.SearchBefore, Env: parent.Env, PMIOffer: parent.PMIOffer, DefaultEnv: parent.DefaultEnv, RankNeeds: parent.RankNeeds}
		app.Env.Set = slices.Concat(app.Env.Set, c.Env)
		if r.PMIx {
			app.PMIOffer = job.PMIOfferPMIx
		}
		v := infoValues{}
		for _, p := range c.Info {
			if err := v.readKey(p, c.Count, &app, &req, g); err != nil {
				return req, nil, err
			}
		}
		app.Hosts, app.SearchAfter = v.hosts, programDirs(app.Dir, parent.Dir)
		if len(app.Argv) > 0 {
			staged, _ := job.FindStagedFile(app.Argv[0], req.StagedFiles, app.Dir, parent.Dir)
			app.StagedFile = staged.Name
		}
		req.Apps, wishes = append(req.Apps, app), append(wishes, v)
	}
	if err := applyLayout(wishes, &req.Placement); err != nil {
		return req, nil, err
	}
	if len(wishes) == 1 && wishes[0].hosts != nil { // in the order in which they were named
		req.Sort, req.HostEntries = "", nil
		for _, name := range wishes[0].hosts {
			req.HostEntries = append(req.HostEntries, slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return n.Name == name }))
		}
	}
	return req, wishes, nil
}

// programDirs are those in which a program without a slash is looked for behind PATH: its working directory, as mpirun does, and
// that of the rank that asks. An info key "path" of a program of Open MPI comes no further than its library.
func programDirs(dirs ...string) (folders []string) {
	for _, dir := range dirs {
		if filepath.IsAbs(dir) && !slices.Contains(folders, dir) { // what begins in a home, only the node knows
			folders = append(folders, dir)
		}
	}
	return folders
}

// readKey takes in one info key.
func (v *infoValues) readKey(p spawn.Pair, count int, app *job.App, req *job.Request, g *HostPolicy) (err error) {
	switch p.Key {
	case "host", "hosts", "add-host":
		return v.confineToHosts(req, p.Value, g)
	case "file", "hostfile": // what they say, the helper of the rank says in other keys
		return fmt.Errorf("info key %s: such files are read where the rank runs, and not here", p.Key)
	case "wdir":
		app.Dir = resolvePath(app.Dir, p.Value)
	case "path":
		app.SearchBefore = filepath.SplitList(p.Value)
	case "arch":
		v.arch = archName(p.Value)
	case "soft":
		if v.soft, err = parseSoft(p.Value, count); err != nil {
			err = fmt.Errorf("info key soft: %w", err)
		}
	default:
		if isLayoutKey(p.Key) {
			if v.layout == nil {
				v.layout = make(layout)
			}
			v.layout[p.Key] = p.Value
		}
	}
	return err
}

// resolvePath is a path that may be relative to a directory.
func resolvePath(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
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

// RestrictArch confines the sections of a spawn to nodes of the architecture they want.
func (w Constraints) RestrictArch(req *job.Request, snap job.Snapshot) {
	for i, v := range w {
		if v.arch == "" {
			continue
		}
		req.Apps[i].Hosts = []string{}
		for _, n := range snap.Nodes {
			if n.Arch == v.arch && (v.hosts == nil || slices.Contains(v.hosts, n.Name)) {
				req.Apps[i].Hosts = append(req.Apps[i].Hosts, n.Name)
			}
		}
	}
}

// LowerCounts lowers the largest number of ranks that may be lower; of a single command at once
// to what there is room for. It reports whether there was one.
func (w Constraints) LowerCounts(apps []job.App, room int) bool {
	if len(apps) > 1 {
		room = MaxRanks // whose it is, nobody says
	}
	best, to := -1, 0
	for i, v := range w {
		next := slices.IndexFunc(v.soft, func(n int) bool { return n < apps[i].N && n <= room })
		if next >= 0 && (best < 0 || apps[i].N > apps[best].N) {
			best, to = i, v.soft[next]
		}
	}
	if best < 0 {
		return false
	}
	apps[best].N = to
	return true
}

// NamesHost reports whether a spawn names a host.
func (w Constraints) NamesHost(def job.NodeDef) bool {
	return slices.ContainsFunc(w, func(v infoValues) bool { return slices.Contains(v.hosts, def.Name) })
}

// UsesAllHosts reports whether the ranks of a spawn go to one node after the other, and so to all that there are.
func (w Constraints) UsesAllHosts(req job.Request) bool {
	_, said := w[0].layout["map_by"]
	return said && req.RoundRobin && w[0].hosts == nil
}

// BoundSoft bounds the sections of a spawn before it is planned, which may have so many ranks in all: numbers of ranks that
// will do and are too large are not tried.
func (w Constraints) BoundSoft(apps []job.App, most int) error {
	for {
		size := 0
		for _, app := range apps {
			if app.N < 1 || app.N > MaxRanks {
				return fmt.Errorf("%d ranks; a spawn has from 1 to %d", app.N, MaxRanks)
			}
			size += app.N
		}
		if size <= most {
			return nil
		}
		if !w.LowerCounts(apps, most) {
			return fmt.Errorf("%d ranks do not fit: there may be %d on these hosts", size, most)
		}
	}
}
