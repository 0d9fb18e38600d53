package info

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// A FindHosts is a function that returns the hosts in a list that a rank has given, in the syntax of -host. It does
// not connect to them. It sets Local for mpiexec's own machine.
type FindHosts func(list string) ([]job.NodeDef, error)

// A HostPolicy says on which hosts a job may spawn ranks (rule TRUST-9).
type HostPolicy struct {
	FindHosts  FindHosts // nil: ranks cannot name hosts
	Allowed    job.SpawnHosts
	Hosts      []KnownHost   // hosts of the job; programs know them by the host names that the machines report
	Candidates []job.NodeDef // candidate hosts of the job
}

// A KnownHost is a host of the job, together with the host name that the machine itself reports.
type KnownHost struct {
	Def      job.NodeDef
	Hostname string
}

// SetCandidates sets the candidates for a spawn in req, which is a copy of the job's request. It copies the
// lists in req before it changes them.
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

// confineToHosts restricts the ranks of a command to the hosts in list. Each host must be one of the job's
// candidate hosts, or be allowed by g.
func (v *infoValues) confineToHosts(req *job.Request, list string, g *HostPolicy) error {
	if g.FindHosts == nil {
		return errors.New("spawn requests of this job cannot choose hosts")
	}
	defs, err := g.FindHosts(list)
	if err != nil {
		return err
	}
	var notAllowed []job.NodeDef
	for _, def := range defs {
		i := g.candidateIndex(req, def)
		switch {
		case i >= 0:
		case g.Allowed.Any && !def.Local && isPlainName(def):
			i = req.AddNode(def)
		default:
			notAllowed = append(notAllowed, def)
			continue
		}
		v.hosts = append(v.hosts, req.Nodes[i].Name)
	}
	if len(notAllowed) > 0 {
		return g.NotAllowedError(notAllowed)
	}
	return nil
}

// isPlainName reports whether a host is given by its name only. Ranks must not choose the user, port or
// address of a connection.
func isPlainName(def job.NodeDef) bool { return def.User == "" && def.Port == 0 && def.Address == "" }

// candidateIndex returns the index of the candidate that a rank has named, or -1. Names that the user has given
// take precedence over host names that the machines report.
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

// isCandidate reports whether the name in named, which a rank has given for a spawn, refers to the candidate host n.
func isCandidate(n, named job.NodeDef) bool {
	is := func(name string) bool { return name != "" && strings.EqualFold(name, named.Host) }
	return n.IsSameNode(named) || is(n.Name) || is(n.Host) || slices.ContainsFunc(n.Aliases, is) || n.Local && named.Local
}

// NotAllowedError returns the error for hosts on which the job is not allowed to spawn ranks. The error names the
// option that would allow them.
func (g *HostPolicy) NotAllowedError(hosts []job.NodeDef) error {
	var names []string
	candidates, local, qualified := 0, 0, false
	for _, def := range hosts {
		names = append(names, def.Name)
		if slices.ContainsFunc(g.Candidates, func(n job.NodeDef) bool { return isCandidate(n, def) }) {
			candidates++
		}
		if def.Local {
			local++
		}
		qualified = qualified || !isPlainName(def)
	}
	list := hostlist.Fold(names)
	allow := list
	switch {
	case g.Allowed.Job && candidates == len(names):
		allow = "candidates"
	case g.Allowed.Any && qualified && local == 0:
		return &ForbiddenError{fmt.Sprintf("the program may not choose a user, port or address for %s", list)}
	case g.Allowed.Any:
		allow = "any,localhost"
	}
	return &ForbiddenError{fmt.Sprintf("the job does not include %s (allowed with --spawn-hosts %s)", list, allow)}
}

// A ForbiddenError says that rule TRUST-9 or TRUST-10 forbids a spawn. Messages print Text after the rank's name.
type ForbiddenError struct{ Text string }

func (e *ForbiddenError) Error() string { return e.Text }
