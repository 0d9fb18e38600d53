package reserve

import (
	"fmt"
	"path/filepath"
	"slices"

	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/pmiserver/spawn"
)

// infoValues are what the info keys of one command of a spawn say that no request has a place
// for.
type infoValues struct {
	hosts  []string // names of nodes; nil: all
	arch   string   // as in GOARCH; empty: any
	soft   []int    // numbers of ranks that would do, descending; nil: only the one asked for
	layout spawnLayout
}

// spawnRequest makes a request of a spawn: what the job asked for holds, and what the
// section of the rank that asks has, but for what the info keys say (MPI-4.1, 11.8.4).
// Unknown keys are ignored.
func spawnRequest(req job.Request, parent job.App, r spawn.Request, g *guide) (job.Request, []infoValues, error) {
	req.Apps, req.RankFile, req.Wait = nil, nil, false
	req.Set, req.Balance, req.Contiguous = nodeset.Setting{}, false, "" // it goes to what the job has chosen
	g.candidates(&req)
	req.Limits.Run = 0
	var values []infoValues
	for _, c := range r.Commands {
		app := job.App{N: c.Count, Argv: c.Argv, Dir: parent.Dir, Path: parent.Path, Env: parent.Env, PMI: parent.PMI, Told: parent.Told, Share: parent.Share}
		app.Env.Set = slices.Concat(app.Env.Set, c.Env)
		if r.PMIx {
			app.PMI = job.OfferPMIx
		}
		v := infoValues{}
		for _, p := range c.Info {
			if err := v.take(p, c.Count, &app, &req, g); err != nil {
				return req, nil, err
			}
		}
		app.Hosts = v.hosts
		if len(app.Argv) > 0 {
			staged, _ := job.StagedAs(app.Argv[0], req.Parcels, app.Dir, parent.Dir)
			app.Staged = staged.Name
		}
		req.Apps, values = append(req.Apps, app), append(values, v)
	}
	if len(values) > 0 {
		if err := layOut(values, &req.Placing); err != nil {
			return req, nil, err
		}
	}
	if len(values) == 1 && values[0].hosts != nil { // in the order in which they were named
		req.Sort, req.Turns = "", nil
		for _, name := range values[0].hosts {
			req.Turns = append(req.Turns, slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return n.Name == name }))
		}
	}
	return req, values, nil
}

// take takes in one info key.
func (v *infoValues) take(p spawn.Pair, count int, app *job.App, req *job.Request, g *guide) (err error) {
	switch p.Key {
	case "host", "hosts", "add-host":
		return v.name(req, p.Value, g)
	case "file", "hostfile": // what they say, the helper of the rank says in other keys
		return fmt.Errorf("info key %s: such files are read where the rank runs, and not here", p.Key)
	case "wdir":
		app.Dir = within(app.Dir, p.Value)
	case "path":
		app.Path = filepath.SplitList(p.Value)
	case "arch":
		v.arch = archName(p.Value)
	case "soft":
		if v.soft, err = soften(p.Value, count); err != nil {
			err = fmt.Errorf("info key soft: %w", err)
		}
	default:
		if isLayoutKey(p.Key) {
			if v.layout == nil {
				v.layout = make(spawnLayout)
			}
			v.layout[p.Key] = p.Value
		}
	}
	return err
}

// within is a path that may be relative to a directory.
func within(dir, path string) string {
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

// restrictArch confines the sections of a spawn to nodes of the architecture they want.
func restrictArch(req *job.Request, values []infoValues, snap job.Snapshot) {
	for i, v := range values {
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

// universe is the number of processes that would fit (-usize); 0: nothing is said of it.
func universe(req job.Request, snap job.Snapshot) int {
	if req.Universe != job.SystemSize {
		return req.Universe
	}
	sum, seen, listed := 0, make(map[string]bool), req.Listed()
	for _, n := range snap.Nodes {
		if !listed[n.Name] {
			continue
		}
		if n.Slots > 0 || !seen[n.Identity] { // slots of two names of a machine add up (HOST-8)
			sum += n.Size()
		}
		seen[n.Identity] = n.Identity != ""
	}
	return sum
}
