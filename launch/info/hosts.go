package info

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

// A Guide knows the hosts to which a job may spawn (TRUST-9).
type Guide struct {
	Find  Find // nil: ranks cannot name hosts
	Allow job.SpawnHosts
	Seen  []Seen        // those of the job; programs call them by the names they have for themselves
	All   []job.NodeDef // its candidates
}

// Seen is a host that the job has, and what it calls itself.
type Seen struct {
	Def      job.NodeDef
	Hostname string
}

// Candidates makes those of a spawn of those of the job. The request is a copy, and so are
// its lists then.
func (g *Guide) Candidates(req *job.Request) {
	req.Nodes, req.Turns = slices.Clone(req.Nodes), slices.Clone(req.Turns)
	if g.Allow.Job {
		seen := make(map[string]bool, len(g.Seen))
		for _, n := range g.Seen {
			seen[n.Def.Name] = true
		}
		req.KeepNodes(func(def job.NodeDef) bool { return seen[def.Name] })
	}
	for _, def := range g.Allow.List {
		if !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { return known(n, def) }) {
			req.AddNode(def)
		}
	}
}

// name confines the ranks to hosts, each of which must be a candidate, or allowed.
func (v *values) name(req *job.Request, list string, g *Guide) error {
	if g.Find == nil {
		return errors.New("hosts cannot be named here")
	}
	defs, err := g.Find(list)
	if err != nil {
		return err
	}
	var strangers []job.NodeDef
	for _, def := range defs {
		i := g.index(req, def)
		switch {
		case i >= 0:
		case g.Allow.Any && !def.Local && plain(def):
			i = req.AddNode(def)
		default:
			strangers = append(strangers, def)
			continue
		}
		v.hosts = append(v.hosts, req.Nodes[i].Name)
	}
	if len(strangers) > 0 {
		return g.Refusal(strangers)
	}
	return nil
}

// plain reports whether a host is named alone: how it is reached, and as whom, is not for a
// rank to say.
func plain(def job.NodeDef) bool { return def.User == "" && def.Port == 0 && def.Address == "" }

// index finds the candidate that a rank means; -1: there is none. What the user calls a
// host comes before what hosts call themselves.
func (g *Guide) index(req *job.Request, named job.NodeDef) int {
	i := slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return known(n, named) })
	if i >= 0 {
		return i
	}
	for _, n := range g.Seen {
		if own := n.Hostname; own != "" && strings.EqualFold(own, named.Host) {
			return slices.IndexFunc(req.Nodes, n.Def.Same)
		}
	}
	return -1
}

// known reports whether a host that is named is a certain candidate.
func known(n, named job.NodeDef) bool {
	is := func(name string) bool { return name != "" && strings.EqualFold(name, named.Host) }
	return n.Same(named) || is(n.Name) || is(n.Host) || slices.ContainsFunc(n.Aliases, is) || n.Local && named.Local
}

// Refusal is the error of hosts that the job does not have, and the option that would do.
func (g *Guide) Refusal(strangers []job.NodeDef) error {
	var names []string
	candidates, here, odd := 0, 0, false
	for _, def := range strangers {
		names = append(names, def.Name)
		if slices.ContainsFunc(g.All, func(n job.NodeDef) bool { return known(n, def) }) {
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
	case g.Allow.Job && candidates == len(names):
		allow = "candidates"
	case g.Allow.Any && odd && here == 0:
		return &NotDone{fmt.Sprintf("wants to spawn on %s by a user, port or address of its own; not done", who)}
	case g.Allow.Any:
		allow = "any,localhost"
	}
	return &NotDone{fmt.Sprintf("wants to spawn on %s, which the job does not have; not done (--spawn-hosts %s allows it)", who, allow)}
}

// A NotDone is a spawn that a rule of TRUST-9 or TRUST-10 forbids. The text goes on where
// the rank that asks was named.
type NotDone struct{ Text string }

func (e *NotDone) Error() string { return e.Text }
