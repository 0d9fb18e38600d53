package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch"
)

// A Universe is the number of processes that MPI programs are told would fit.
type Universe string

func (u *Universe) UnmarshalText(text []byte) error {
	*u = Universe(strings.ToUpper(string(text)))
	if *u == "SYSTEM" || *u == "INFINITE" {
		return nil
	}
	if err := checkNumber(string(text), 1); err != nil {
		return fmt.Errorf("%w; nor SYSTEM or INFINITE", err)
	}
	return nil
}

// size is what a request says of it.
func (u Universe) size() int {
	if u == "SYSTEM" {
		return job.SystemSize
	}
	n, _ := strconv.Atoi(string(u)) // checked; 0 for INFINITE
	return n
}

// hostFinder finds hosts that a program names when it spawns others: in the notation of
// -host, and known to the cluster file or not. This machine is told by whatever name and
// user it would be reached.
func hostFinder(j JobOptions, sc scene) launch.Find {
	return func(list string) ([]job.NodeDef, error) {
		entries, err := hostlist.Parse("info key host", list)
		if err == nil && slices.ContainsFunc(entries, func(e hostlist.Entry) bool { return e.Exclude }) {
			err = errors.New("info key host: hosts cannot be left out there")
		}
		if err == nil {
			entries, err = hostlist.Join(entries)
		}
		if err != nil {
			return nil, err
		}
		defs, err := sc.listed(entries, j)
		for i := range defs {
			defs[i].Local = sc.here.isMe(cmp.Or(defs[i].Address, defs[i].Host))
		}
		return defs, err
	}
}

// SpawnHosts are those to which ranks may spawn others: a word, or a list of hosts, one of
// which may be "any".
type SpawnHosts struct {
	text  string
	word  string // candidates, job or none; empty: a list
	any   bool
	hosts []hostlist.Entry
}

func (h *SpawnHosts) UnmarshalText(text []byte) error {
	*h = SpawnHosts{text: string(text)}
	switch word := strings.ToLower(h.text); word {
	case "candidates", "job", "none":
		h.word = word
		return nil
	}
	entries, err := hostlist.Parse("--spawn-hosts", h.text)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := strings.ToLower(e.Host); {
		case e.Exclude:
			return errors.New("hosts cannot be left out here")
		case name == "any":
			h.any = true
		case name == "candidates" || name == "job" || name == "none":
			return fmt.Errorf("%q stands alone", name)
		default:
			h.hosts = append(h.hosts, e)
		}
	}
	return nil
}

// spawnHosts is what a request says of them.
func (sc scene) spawnHosts(line Line) (allow job.SpawnHosts, err error) {
	h := line.Job.SpawnHosts
	g, given := line.Origin("spawn-hosts")
	if !given {
		return allow, nil
	}
	allow = job.SpawnHosts{None: h.word == "none", Job: h.word == "job", Any: h.any, Text: g.String()}
	entries, err := hostlist.Join(h.hosts)
	if err == nil && len(entries) > 0 {
		allow.List, err = sc.listed(entries, line.Job)
	}
	return allow, err
}
