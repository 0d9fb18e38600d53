/*
Package info converts a spawn request of a rank (MPI_Comm_spawn) to a job.Request. It checks the info keys
(MPI-4.1, 11.8.4), the number of ranks (rules TRUST-11, TRUST-12), and whether the hosts are allowed (rule
TRUST-9).

	spawn.Request --MakeRequest--> job.Request, and Constraints: info keys without a field in it
	                     |
	               HostPolicy: the candidates of the job, and --spawn-hosts
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

// MaxRanks is the largest number of ranks in one spawn (rule TRUST-12).
const MaxRanks = 1 << 20

// An infoValues contains the info keys of one spawned command for which a job.Request has no field.
type infoValues struct {
	hosts  []string // node names; nil: all
	arch   string   // as in GOARCH; empty: any
	soft   []int    // acceptable numbers of ranks, descending; nil: only the requested one
	layout layout
}

// Constraints contains, for each command of a spawn, the info keys for which a job.Request has no field.
type Constraints []infoValues

// MakeRequest builds the request for a spawn from the job's request and the app context of the rank that spawns. It
// applies the info keys of the spawn (MPI-4.1, 11.8.4), and ignores unknown ones.
func MakeRequest(req job.Request, parent job.App, r spawn.Request, g *HostPolicy) (job.Request, Constraints, error) {
	if len(r.Commands) == 0 { // a faulty helper may send that
		return req, nil, errors.New("the spawn request names no program")
	}
	req.Apps, req.FixedPlacements, req.Wait = nil, nil, false
	req.NodeSet, req.Balance, req.Contiguous = nodeset.Setting{}, false, "" // a spawn runs on the nodes that the job has selected
	g.SetCandidates(&req)
	req.TimeLimits.Run = 0
	var constraints Constraints
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
		req.Apps, constraints = append(req.Apps, app), append(constraints, v)
	}
	if err := applyLayout(constraints, &req.Placement); err != nil {
		return req, nil, err
	}
	if len(constraints) == 1 && constraints[0].hosts != nil { // in the order of their names in the info key
		req.Sort, req.HostEntries = "", nil
		for _, name := range constraints[0].hosts {
			req.HostEntries = append(req.HostEntries, slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return n.Name == name }))
		}
	}
	return req, constraints, nil
}

// programDirs returns the directories that are searched, after PATH, for a program without a slash in its name. These
// are the program's working directory, as in mpirun, and the working directory of the rank that spawns. The latter is
// included because Open MPI's library does not pass on the info key "path".
func programDirs(dirs ...string) (all []string) {
	for _, dir := range dirs {
		if filepath.IsAbs(dir) && !slices.Contains(all, dir) { // only the node can resolve a path that begins with a home directory
			all = append(all, dir)
		}
	}
	return all
}

// readKey stores the info key of a spawned command, and its value, in v, app or req. count is the number of ranks of
// the command.
func (v *infoValues) readKey(pair spawn.Pair, count int, app *job.App, req *job.Request, policy *HostPolicy) (err error) {
	switch pair.Key {
	case "host", "hosts", "add-host":
		return v.confineToHosts(req, pair.Value, policy)
	case "file", "hostfile": // the rank's helper reads these files and sends other keys
		return fmt.Errorf(`info key %q: the helper on the rank's host did not read the file %s`, pair.Key, pair.Value)
	case "wdir":
		app.Dir = resolvePath(app.Dir, pair.Value)
	case "path":
		app.SearchBefore = filepath.SplitList(pair.Value)
	case "arch":
		v.arch = archName(pair.Value)
	case "soft":
		if v.soft, err = parseSoft(pair.Value, count); err != nil {
			err = fmt.Errorf(`info key "soft": %w`, err)
		}
	default:
		if isLayoutKey(pair.Key) {
			if v.layout == nil {
				v.layout = make(layout)
			}
			v.layout[pair.Key] = pair.Value
		}
	}
	return err
}

// resolvePath returns path. If path is relative, it is joined to dir.
func resolvePath(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// archName converts the name of an architecture from uname(1) to Go's name (GOARCH). It returns other names
// unchanged.
func archName(name string) string {
	switch name {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// RestrictArch restricts the app contexts of a spawn to nodes of the CPU architecture that they require.
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

// LowerCounts lowers the number of ranks of one app context to the next lower number that its info key "soft" allows.
// Of the app contexts with such a key, it chooses the one with the most ranks. If the spawn has only one app context,
// the new number is at most room. It returns false if no app context allows fewer ranks.
func (w Constraints) LowerCounts(apps []job.App, room int) bool {
	if len(apps) > 1 {
		room = MaxRanks // it is not known which app context does not fit
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

// NamesHost reports whether a command of the spawn names this host.
func (w Constraints) NamesHost(def job.NodeDef) bool {
	return slices.ContainsFunc(w, func(v infoValues) bool { return slices.Contains(v.hosts, def.Name) })
}

// UsesAllHosts reports whether the ranks of a spawn are placed round-robin on all hosts.
func (w Constraints) UsesAllHosts(req job.Request) bool {
	_, mapped := w[0].layout["map_by"]
	return mapped && req.RoundRobin && w[0].hosts == nil
}

// BoundSoft checks the number of ranks of a spawn before planning. If there are more than limit, it lowers
// the numbers as far as the info keys "soft" allow. It returns an error if there are still too many.
func (w Constraints) BoundSoft(apps []job.App, limit int) error {
	for {
		size := 0
		for _, app := range apps {
			if app.N < 1 || app.N > MaxRanks {
				return fmt.Errorf("a spawn cannot start %d ranks; allowed: 1 to %d", app.N, MaxRanks)
			}
			size += app.N
		}
		if size <= limit {
			return nil
		}
		if !w.LowerCounts(apps, limit) {
			return fmt.Errorf("%d ranks do not fit: these hosts may have at most %d ranks", size, limit)
		}
	}
}
