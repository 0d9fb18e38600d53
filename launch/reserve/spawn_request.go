package reserve

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"remshell/job"
	"remshell/pin"
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

// mostSoft is how many numbers of ranks a spawn may leave to choose from (TRUST-11).
const mostSoft = 1 << 16

// soften reads the info key "soft": numbers of ranks that would do, as A, A:B or A:B:STEP
// with commas between (MPI-4.1, 11.8.2). Those from 1 to most are returned, the largest
// first.
func soften(text string, most int) (would []int, err error) {
	for item := range strings.SplitSeq(text, ",") {
		first, last, step, ok := softRange(item)
		if !ok {
			return nil, fmt.Errorf("%q is no set of numbers", item)
		}
		if step < 0 {
			if first < last {
				continue
			}
			first, last, step = first-(first-last)/-step*-step, first, -step
		}
		for i := first + max(0, (step-first)/step)*step; i <= min(most, last); i += step {
			if len(would) == mostSoft {
				return nil, fmt.Errorf("more than %d numbers", mostSoft)
			}
			would = append(would, i)
		}
	}
	slices.Sort(would)
	would = slices.Compact(would)
	slices.Reverse(would)
	return would, nil
}

// softRange reads one item of such a set. The numbers have 32 bits.
func softRange(item string) (first, last, step int, ok bool) {
	var n []int
	for field := range strings.SplitSeq(item, ":") {
		number, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || len(n) == 3 {
			return 0, 0, 0, false
		}
		n = append(n, int(number))
	}
	switch len(n) {
	case 1:
		return n[0], n[0], 1, true
	case 2:
		return n[0], n[1], 1, true
	}
	return n[0], n[1], n[2], n[2] != 0
}

// tryFewer lowers the largest number of ranks that may be lower; of a single command at once
// to what there is room for. It reports whether there was one.
func tryFewer(apps []job.App, values []infoValues, room int) bool {
	if len(apps) > 1 {
		room = mostRanks // whose it is, nobody says
	}
	best, to := -1, 0
	for i, v := range values {
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

// A spawnLayout is what the info keys of a command of a spawn say of mapping, ranking and binding, in the
// words of the options of those names.
type spawnLayout map[string]string

// layoutKeys are these keys, in the order in which they are read, and what each changes.
var layoutKeys = []struct {
	key  string
	read func(value string, to *job.Placing) (more bool, err error) // more: it says what only a command line can
}{
	{"map_by", readMapping},
	{"ppr", func(value string, to *job.Placing) (bool, error) { return readMapping("ppr:"+value, to) }},
	{"rank_by", func(value string, to *job.Placing) (bool, error) {
		return false, to.Layout.Rank.UnmarshalText([]byte(value))
	}},
	{"bind_to", readBinding},
}

// isLayoutKey reports whether an info key is one of these.
func isLayoutKey(key string) bool {
	for _, k := range layoutKeys {
		if k.key == key {
			return true
		}
	}
	return false
}

// readMapping takes a mapping. That ranks may share CPUs is so anyway where none is free.
func readMapping(value string, to *job.Placing) (more bool, err error) {
	var m pin.Mapping
	if err := m.UnmarshalText([]byte(value)); err != nil {
		return false, err
	}
	to.Layout.Map, to.Loop = m, m.Level == pin.ByNode && m.Each == 0
	to.Forbid = to.Forbid || m.NoShare
	return m.Seq || m.File != "" || m.Only != nil || m.Width > 0 || m.NoLocal || m.Threads || m.NoThread, nil
}

// readBinding takes a binding.
func readBinding(value string, to *job.Placing) (more bool, err error) {
	var b pin.Binding
	if err := b.UnmarshalText([]byte(value)); err != nil {
		return false, err
	}
	to.Layout.Bind, to.NoPin = b, b.None
	return b.Width > 0 || b.Only != nil || b.Sets != nil || b.RoundRobin || b.Report, nil
}

// layOut has a spawn placed as its info keys say; what they do not say is as in the job. All programs of
// a spawn are one group, and have one layout.
func layOut(values []infoValues, to *job.Placing) error {
	for _, v := range values[1:] {
		if !maps.Equal(v.layout, values[0].layout) {
			return fmt.Errorf("info keys map_by, ppr, rank_by, bind_to: all programs of a spawn have one layout, and these two: %s and %s",
				values[0].layout, v.layout)
		}
	}
	for _, k := range layoutKeys {
		value, given := values[0].layout[k.key]
		if !given {
			continue
		}
		more, err := k.read(value, to)
		switch {
		case err != nil:
			return fmt.Errorf("info key %s: %w", k.key, err)
		case more:
			return fmt.Errorf("info key %s: %q says what only the command line may: a spawn names slot, node, socket, numa, a cache, core or hwthread", k.key, value)
		}
	}
	return nil
}

// String lists keys and values in the order of the keys.
func (l spawnLayout) String() (text string) {
	for _, k := range layoutKeys {
		if value, given := l[k.key]; given {
			text += fmt.Sprintf(", %s=%s", k.key, value)
		}
	}
	if text == "" {
		return "none"
	}
	return text[2:]
}
