//go:build linux

package helper

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"strconv"
	"strings"

	"remshell/helper/uplink"
	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/wire"
)

// elsewhere are the groups of the job that have no ranks on this node, as their PMIx server sees them:
// mpiexec knows them (PMIX-45).
type elsewhere struct {
	asked  *uplink.Questions
	of     *wire.Prepare // of any group of the job
	server string        // the name of the server
}

// Space is that of pmix.Elsewhere.
func (e *elsewhere) Space(group string) string { return spaceOf(e.of, group) }

var errNoGroup = errors.New("there is no such group in the job")

// Find is that of pmix.Elsewhere. Nobody is asked for what is no namespace of the job.
func (e *elsewhere) Find(ctx context.Context, namespace string) (pmix.Group, error) {
	digits := namespace[strings.LastIndexByte(namespace, '-')+1:]
	number, err := strconv.Atoi(digits)
	if err != nil || number < 0 {
		return pmix.Group{}, errNoGroup
	}
	name := e.of.Job.Group(number)
	if subtle.ConstantTimeCompare([]byte(e.Space(name)), []byte(namespace)) == 0 {
		return pmix.Group{}, errNoGroup
	}
	where, err := e.asked.PeersOf(ctx, name)
	if err != nil {
		return pmix.Group{}, err
	}
	info, err := e.describe(namespace, where)
	if err != nil {
		return pmix.Group{}, err
	}
	job := func(context.Context) (jobinfo.Job, error) { return info, nil }
	return pmix.Group{Name: name, Namespace: namespace, Size: len(where.Of), Job: job}, nil
}

// describe is what such a group is told of itself, as far as it is of any use here.
func (e *elsewhere) describe(namespace string, where *wire.Peered) (jobinfo.Job, error) {
	ranks := 0
	for _, n := range where.Apps {
		ranks += n
	}
	ranked := make([]bool, len(where.Nodes))
	for _, node := range where.Of {
		if node >= len(where.Nodes) {
			return jobinfo.Job{}, errNoGroup
		}
		ranked[node] = true
	}
	if len(where.Of) == 0 || ranks != len(where.Of) {
		return jobinfo.Job{}, errNoGroup
	}
	info := jobinfo.Job{Namespace: namespace, Server: e.server, Of: where.Of, Apps: where.Apps, Here: -1,
		Universe: cmp.Or(e.of.PMI.Universe, e.of.PMI.Slots), Full: jobinfo.FullRanks}
	for node, name := range where.Nodes {
		if !ranked[node] {
			return jobinfo.Job{}, errNoGroup
		}
		info.Nodes = append(info.Nodes, jobinfo.Node{Name: name})
	}
	return info, nil
}
