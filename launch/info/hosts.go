package info

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// FindHosts makes candidates of hosts that a program names, as -host would; it opens nothing.
// Local says of each whether it is the launching machine.
type FindHosts func(list string) ([]job.NodeDef, error)

// A HostPolicy knows the hosts to which a job may spawn (TRUST-9).
type HostPolicy struct {
	FindHosts  FindHosts // nil: ranks cannot name hosts
	Allowed    job.SpawnHosts
	Hosts      []KnownHost   // those of the job; programs call them by the names they have for themselves
	Candidates []job.NodeDef // its candidates
}

// KnownHost is a host that the job has, and what it calls itself.
type KnownHost struct {
	Def      job.NodeDef
	Hostname string
}

// SetCandidates makes those of a spawn of those of the job. The request is a copy, and so are
// its lists then.
func (g *HostPolicy) SetCandidates(req *job.Request) {
	req.Nodes, req.HostEntries = slices.Clone(req.Nodes), slices.Clone(req.HostEntries)
	if g.Allowed.Job {
		seen := make(map[string]bool, len(g.Hosts))
		for _, n := range g.Hosts {
			seen[n.Def.Name] = true
		}
		req.KeepNodes(func(def job.NodeDef) bool { return seen[def.Name] })
	}
	for _, def := range g.Allowed.List {
		if !slices.ContainsFunc(req.Nodes, func(n job.NodeDef) bool { return isCandidate(n, def) }) {
			req.AddNode(def)
		}
	}
}

// confineToHosts confines the ranks to hosts, each of which must be a candidate, or allowed.
func (v *infoValues) confineToHosts(req *job.Request, list string, g *HostPolicy) error {
	if g.FindHosts == nil {
		return errors.New("hosts cannot be named here")
	}
	defs, err := g.FindHosts(list)
	if err != nil {
		return err
	}
	var strangers []job.NodeDef
	for _, def := range defs {
		i := g.candidateIndex(req, def)
		switch {
		case i >= 0:
		case g.Allowed.Any && !def.Local && isPlainName(def):
			i = req.AddNode(def)
		default:
			strangers = append(strangers, def)
			continue
		}
		v.hosts = append(v.hosts, req.Nodes[i].Name)
	}
	if len(strangers) > 0 {
		return g.NotAllowedError(strangers)
	}
	return nil
}

// isPlainName reports whether a host is named alone: how it is reached, and as whom, is not for a
// rank to say.
func isPlainName(def job.NodeDef) bool { return def.User == "" && def.Port == 0 && def.Address == "" }

// candidateIndex finds the candidate that a rank means; -1: there is none. What the user calls a
// host comes before what hosts call themselves.
func (g *HostPolicy) candidateIndex(req *job.Request, named job.NodeDef) int {
	i := slices.IndexFunc(req.Nodes, func(n job.NodeDef) bool { return isCandidate(n, named) })
	if i >= 0 {
		return i
	}
	for _, n := range g.Hosts {
		if own := n.Hostname; own != "" && strings.EqualFold(own, named.Host) {
			return slices.IndexFunc(req.Nodes, n.Def.IsSameNode)
		}
	}
	return -1
}

// isCandidate reports whether a host that is named is a certain candidate.
func isCandidate(n, named job.NodeDef) bool {
	is := func(name string) bool { return name != "" && strings.EqualFold(name, named.Host) }
	return n.IsSameNode(named) || is(n.Name) || is(n.Host) || slices.ContainsFunc(n.Aliases, is) || n.Local && named.Local
}

// NotAllowedError is the error of hosts that the job does not have, and the option that would do.
func (g *HostPolicy) NotAllowedError(strangers []job.NodeDef) error {
	var names []string
	candidates, here, odd := 0, 0, false
	for _, def := range strangers {
		names = append(names, def.Name)
		if slices.ContainsFunc(g.Candidates, func(n job.NodeDef) bool { return isCandidate(n, def) }) {
			candidates++
		}
		if def.Local {
			here++
		}
		odd = odd || !isPlainName(def)
	}
	who := hostlist.Fold(names)
	allow := who
	switch {
	case g.Allowed.Job && candidates == len(names):
		allow = "candidates"
	case g.Allowed.Any && odd && here == 0:
		return &ForbiddenError{fmt.Sprintf("wants to spawn on %s by a user, port or address of its own; not done", who)}
	case g.Allowed.Any:
		allow = "any,localhost"
	}
	return &ForbiddenError{fmt.Sprintf("wants to spawn on %s, which the job does not have; not done (--spawn-hosts %s allows it)", who, allow)}
}

// A ForbiddenError is a spawn that a rule of TRUST-9 or TRUST-10 forbids. The text goes on where
// the rank that asks was named.
type ForbiddenError struct{ Text string }

func (e *ForbiddenError) Error() string { return e.Text }
