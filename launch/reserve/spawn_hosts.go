package reserve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// Find makes candidates of hosts that a program names, as -host would; it opens nothing.
// Local says of each whether it is the launching machine.
type Find func(list string) ([]job.NodeDef, error)

// A guide knows the hosts to which a job may spawn (TRUST-9).
type guide struct {
	find  Find
	allow job.SpawnHosts
	seen  []*host // those of the job; programs call them by the names they have for themselves
	all   []job.NodeDef
}

func (r *reservation) guide() *guide {
	return &guide{find: r.env.Find, allow: r.req.Spawn, seen: slices.Clone(r.hosts), all: r.req.Nodes}
}

// candidates makes those of a spawn of those of the job. The request is a copy, and so are
// its lists then.
func (g *guide) candidates(req *job.Request) {
	req.Nodes, req.Turns = slices.Clone(req.Nodes), slices.Clone(req.Turns)
	if g.allow.Job {
		seen := make(map[string]bool, len(g.seen))
		for _, n := range g.seen {
			seen[n.def.Name] = true
		}
		keepNodes(req, func(def job.NodeDef) bool { return seen[def.Name] })
	}
	for _, def := range g.allow.List {
		if !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { return known(n, def) }) {
			AddCandidate(req, def)
		}
	}
}

// keepNodes drops all other candidates, and their turns.
func keepNodes(req *job.Request, keep func(job.NodeDef) bool) {
	at := make([]int, len(req.Nodes)) // of those that stay
	var nodes []job.NodeDef
	for i, def := range req.Nodes {
		if at[i] = -1; keep(def) {
			at[i] = len(nodes)
			nodes = append(nodes, def)
		}
	}
	req.Nodes = nodes
	if req.Turns != nil {
		turns := []int{}
		for _, i := range req.Turns {
			if at[i] >= 0 {
				turns = append(turns, at[i])
			}
		}
		req.Turns = turns
	}
}

// AddCandidate adds a host that no candidate is, with a number that none has: those of a
// cluster file have gaps.
func AddCandidate(req *job.Request, def job.NodeDef) int {
	i := len(req.Nodes)
	def.ID = 0
	for _, n := range req.Nodes {
		def.ID = max(def.ID, n.ID+1)
	}
	req.Nodes = append(req.Nodes, def)
	if req.Turns != nil {
		req.Turns = append(req.Turns, i)
	}
	return i
}

// name confines the ranks to hosts, each of which must be a candidate, or allowed.
func (v *infoValues) name(req *job.Request, list string, g *guide) error {
	if g.find == nil {
		return errors.New("hosts cannot be named here")
	}
	defs, err := g.find(list)
	if err != nil {
		return err
	}
	var strangers []job.NodeDef
	for _, def := range defs {
		i := g.index(req, def)
		switch {
		case i >= 0:
		case g.allow.Any && !def.Local && plain(def):
			i = AddCandidate(req, def)
		default:
			strangers = append(strangers, def)
			continue
		}
		v.hosts = append(v.hosts, req.Nodes[i].Name)
	}
	if len(strangers) > 0 {
		return g.refusal(strangers)
	}
	return nil
}

// plain reports whether a host is named alone: how it is reached, and as whom, is not for a
// rank to say.
func plain(def job.NodeDef) bool { return def.User == "" && def.Port == 0 && def.Address == "" }

// index finds the candidate that a rank means; -1: there is none. What the user calls a
// host comes before what hosts call themselves.
func (g *guide) index(req *job.Request, named job.NodeDef) int {
	i := slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return known(n, named) })
	if i >= 0 {
		return i
	}
	for _, n := range g.seen {
		if own := n.probe.Hostname; own != "" && strings.EqualFold(own, named.Host) {
			return slices.IndexFunc(req.Nodes, n.def.Same)
		}
	}
	return -1
}

// known reports whether a host that is named is a certain candidate.
func known(n, named job.NodeDef) bool {
	is := func(name string) bool { return name != "" && strings.EqualFold(name, named.Host) }
	return n.Same(named) || is(n.Name) || is(n.Host) || slices.ContainsFunc(n.Aliases, is) || n.Local && named.Local
}

// refusal is the error of hosts that the job does not have, and the option that would do.
func (g *guide) refusal(strangers []job.NodeDef) error {
	var names []string
	candidates, here, odd := 0, 0, false
	for _, def := range strangers {
		names = append(names, def.Name)
		if slices.ContainsFunc(g.all, func(n job.NodeDef) bool { return known(n, def) }) {
			candidates++
		}
		if def.Local {
			here++
		}
		odd = odd || !plain(def)
	}
	who := hostlist.Fold(names)
	allow := who
	switch {
	case g.allow.Job && candidates == len(names):
		allow = "candidates"
	case g.allow.Any && odd && here == 0:
		return &NotDone{fmt.Sprintf("wants to spawn on %s by a user, port or address of its own; not done", who)}
	case g.allow.Any:
		allow = "any,localhost"
	}
	return &NotDone{fmt.Sprintf("wants to spawn on %s, which the job does not have; not done (--spawn-hosts %s allows it)", who, allow)}
}

// disguised finds that a host which no option named is the launching machine by another
// name (an alias of SSH, an address).
func (r *reservation) disguised() error {
	local := func(def job.NodeDef) bool { return def.Local }
	if !r.req.Spawn.Any || r.env.Localhost == nil || slices.ContainsFunc(r.req.Nodes, local) {
		return nil
	}
	wanted := &guide{allow: r.req.Spawn}
	here := ""
	for _, n := range r.hosts {
		if n.own || n.def.Local || slices.ContainsFunc(r.req.Spawn.List, n.def.Same) {
			continue
		}
		if here == "" {
			here = r.env.Localhost()
		}
		if n.probe.Identity == here {
			return wanted.refusal([]job.NodeDef{n.def})
		}
	}
	return nil
}

// share is by how much spawned ranks may outnumber slots, and leastShared how many there
// may be in any case (TRUST-12).
const (
	share       = 16
	leastShared = 4096
)

// mostRanks is how many ranks one spawn may have (TRUST-12).
const mostRanks = 1 << 20

// A NotDone is a spawn that a rule of TRUST-9 or TRUST-10 forbids. The text goes on where
// the rank that asks was named.
type NotDone struct{ Text string }

func (e *NotDone) Error() string { return e.Text }

// tooLarge bounds a spawn before it is planned: numbers of ranks that will do and are too
// large are not tried.
func (r *reservation) tooLarge(values []infoValues) error {
	most := r.largest()
	for {
		size := 0
		for _, app := range r.req.Apps {
			if app.N < 1 || app.N > mostRanks {
				return fmt.Errorf("%d ranks; a spawn has from 1 to %d", app.N, mostRanks)
			}
			size += app.N
		}
		if size <= most {
			return nil
		}
		if !tryFewer(r.req.Apps, values, most) {
			return fmt.Errorf("%d ranks do not fit: there may be %d on these hosts", size, most)
		}
	}
}

// largest is how many ranks a spawn may have on its candidates at all. A host that nobody
// has looked at may be as large as it takes.
func (r *reservation) largest() int {
	seen := make(map[string]*host, len(r.hosts))
	for _, n := range r.hosts {
		seen[n.def.Name] = n
	}
	slots := 0
	for _, def := range r.req.Nodes {
		switch n := seen[def.Name]; {
		case n != nil:
			slots += n.size()
		case def.Slots > 0:
			slots += def.Slots
		default:
			return mostRanks
		}
	}
	if !r.req.Forbid {
		slots = max(share*slots, leastShared)
	}
	return min(slots, mostRanks)
}
