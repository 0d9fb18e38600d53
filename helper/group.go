//go:build linux

package helper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"remshell/helper/rank"
	"remshell/job"
	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/spawn"
	"remshell/pmiserver/transcript"
	"remshell/wire"
)

// A Group holds the ranks of this node that share one MPI_COMM_WORLD. These are the ranks of the command line, or of
// one spawn.
type Group struct {
	Prepare           *wire.Prepare
	ranks             []*Rank
	pmi               *pmiserver.Server
	pmiOffers         map[int]*pmiOffer // by app context
	pmix              *rank.PMIx        // nil: no rank is offered it
	canceled          atomic.Bool       // its ranks are killed because one of them could not be started
	fenceWaitReported [2]atomic.Bool    // by protocol; whether mpiexec was told that a rank waits in a fence of the whole group

	address          string   // at which peers reach this node; empty: unknown
	rendezvous       string   // address:port of torch's rendezvous; empty: not wanted
	rendezvousSocket *os.File // keeps that port reserved until the ranks start; nil: none
	variables        []string // of features, for the environment of all ranks
}

// streamWindow returns how many bytes of a rank's output stream may be sent to mpiexec before mpiexec grants
// new credit.
func (g *Group) streamWindow() int {
	if g.Prepare.Streams.Window > 0 {
		return g.Prepare.Streams.Window
	}
	return wire.Window
}

// newGroup prepares the ranks of a group as a Prepare message describes them. It does not start them. It returns an
// error if this node cannot run one of the ranks.
func (s *Session) newGroup(m *wire.Prepare) (*Group, *rank.Error) {
	g := &Group{Prepare: m, address: s.peerAddress(m), pmiOffers: make(map[int]*pmiOffer)}
	confined, refused := rank.NewKernelLimits(m.Process.KernelLimits)
	if refused != nil {
		return nil, refused
	}
	for _, plan := range m.Ranks {
		app := m.Apps[plan.App]
		r := &Rank{group: g, Number: m.Group.First + plan.Rank, Plan: plan, command: rank.Command{Argv: app.Argv, Dir: app.Dir, KernelLimits: confined}, announced: make(chan struct{})}
		if slices.Contains(m.Streams.Stdin, plan.Rank) {
			r.stdin = newStdinWriter(r.Number, s.conn.Send)
		}
		if r.command.Terminal = slices.Contains(m.Streams.PTY, plan.Rank); r.command.Terminal && r.stdin != nil {
			r.stdin.eofText = rank.EndOfInput
		}
		refused := s.locateProgram(g, r, m.Process.BaseEnv, app)
		if refused == nil && app.StagedFile == "" {
			refused = s.detectPMI(g, r)
		}
		if refused != nil {
			return nil, refused
		}
		g.ranks = append(g.ranks, r)
	}
	if refused := g.openRendezvous(); refused != nil {
		return nil, refused
	}
	g.pmi = s.newPMI(g)
	if m.PMI.Port {
		if refused := s.expectByPort(g); refused != nil {
			return nil, refused
		}
	}
	s.admitPMIx(g)
	return g, nil
}

// locateProgram finds the working directory, environment and program of a rank. Ranks of the same app context share the
// results. It returns an error if the rank cannot run.
func (s *Session) locateProgram(g *Group, r *Rank, base job.Env, app job.App) *rank.Error {
	for _, other := range g.ranks {
		if other.Plan.App == r.Plan.App {
			r.command.Path, r.command.Dir, r.command.Env = other.command.Path, other.command.Dir, other.command.Env
			return nil
		}
	}
	if !filepath.IsAbs(r.command.Dir) { // relative to the login directory, as rsh did
		r.command.Dir = filepath.Join(job.EnvValue(s.sys.Environ, "HOME"), r.command.Dir)
	}
	if refused := rank.CheckWorkingDir(r.command.Dir); refused != nil {
		return refused
	}
	log := func(text string) { s.log.inform("%s", text) }
	r.command.Env = rank.AppEnv(s.sys.Environ, rank.WithExistingDirs(base, log), rank.WithExistingDirs(app.Env, log), r.command.Dir)
	if app.StagedFile != "" {
		return nil // a feature calls SetProgram when the file has been staged
	}
	path, refused := rank.FindProgram(r.command.Argv[0], r.command.Dir, app.SearchBefore, rank.SearchPath(r.command.Env), app.SearchAfter...)
	r.command.Path = path
	return refused
}

// addRanks adds the ranks of a group that is about to start. first is the number that the lifecycle gives to the first
// of them.
func (s *Session) addRanks(g *Group, first int) {
	for i, r := range g.ranks {
		r.lifecycleIndex = first + i
		s.ranks[r.lifecycleIndex], s.byRank[r.Number] = r, r
	}
}

// endGroup releases the resources of a group whose ranks have all ended. A spawned group's claim is released now, so
// that the next group can use the CPUs. The job's own claim stays until no process of the job is left on this node.
func (s *Session) endGroup(g *Group) {
	s.stopExpectingByPort(g)
	s.removePMIx(g)
	if g.Prepare.Group.First > 0 {
		s.claims.Release(g.Prepare.Group.Name, func() {})
	}
	if s.groups[g.Prepare.Group.Name] == g {
		delete(s.groups, g.Prepare.Group.Name)
	}
	for _, r := range g.ranks {
		r.awaitPipesClosed(func() { s.PostEvent(pipesClosedEvent{r}) })
	}
}

// retireRank forgets an ended rank once its pipes are closed. Until then, processes that the rank has left behind may
// keep the pipes open.
func (s *Session) retireRank(r *Rank) {
	delete(s.ranks, r.lifecycleIndex)
	if s.byRank[r.Number] == r {
		s.byRank[r.Number] = nil
	}
	if s.port != nil {
		s.port.removeRank(r.group.pmi, r.Plan.Rank)
	}
	for _, retired := range s.Hooks.RankRetired {
		retired(r)
	}
}

// cancelGroup prevents the start of further ranks of a group, and prevents its running ranks from completing
// a barrier.
func (s *Session) cancelGroup(g *Group) {
	g.canceled.Store(true)
	s.stopExpectingByPort(g)
	g.pmi.Freeze()
}

// errGroupCanceled is reported for a rank that was not started because another rank of its group could not
// be started.
var errGroupCanceled = rank.InternalError("the rank was not started, because another rank could not be started", "")

// newPMI returns the PMI server for a group's ranks on this node.
func (s *Session) newPMI(g *Group) *pmiserver.Server {
	m := g.Prepare
	info := pmiserver.Info{Name: m.Group.Name, Size: m.Group.Size, Mapping: m.PMI.Mapping, Universe: m.PMI.Universe,
		Parent: m.Group.Parent, Preputs: m.PMI.Preputs}
	for _, r := range m.Ranks {
		info.Ranks = append(info.Ranks, r.Rank)
	}
	of := make(map[int]*Rank, len(g.ranks))
	for _, r := range g.ranks {
		of[r.Plan.Rank] = r
	}
	info.AppNum = func(rank int) int { return of[rank].Plan.App }
	var others fence.Exchanger // nil: all ranks are on this node
	if m.Group.NodeCount > 1 {
		others = s.fences
	}
	server := pmiserver.New(info, others)
	server.Hosts = func(ctx context.Context) ([]string, []int, error) {
		where, err := s.requests.Peers(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		return where.Nodes, where.NodeOfRank, nil
	}
	if s.Hooks.PMILine != nil {
		server.Trace = func(rank int, line string) { s.tracePMI(of[rank], line) }
	}
	server.Names, server.Spawner = s.Providers.Names, s.newSpawner(g)
	server.Abort = func(rank, code int, message string) {
		s.tracePMI(of[rank], strings.TrimRight(fmt.Sprintf("> KILL(%d) %s", code, transcript.Escape([]byte(message))), " "))
		s.sendAboutRank(of[rank], &wire.PMIReport{Rank: m.Group.First + rank, Event: wire.PMIAborted, Code: code, Text: message})
	}
	server.Broken = func(err error) {
		text := err.Error()
		if m.Group.First > 0 {
			text = "spawned ranks: " + text
		}
		s.conn.Send(&wire.PMIReport{Rank: -1, Event: wire.PMIBarrierBroken, Text: text})
	}
	server.BarrierEntered = func(rank int) { s.reportFenceWait(of[rank], protocolPMI) }
	server.AbortRequested = func(rank int) { of[rank].pmiState.Store(int32(job.PMIAborted)) }
	server.StateChanged = func(rank int, _, to pmiserver.State) {
		switch to {
		case pmiserver.Inited:
			of[rank].pmiState.Store(int32(job.PMIOpen))
			of[rank].initedBy[protocolPMI].Store(true)
		case pmiserver.Finalized:
			of[rank].pmiState.Store(int32(job.PMIFinalized))
		}
	}
	server.Note = func(rank int, text string) { s.log.warn("rank %d: pmi: %s", m.Group.First+rank, text) }
	return server
}

// newSpawner returns the Spawner that handles spawn requests of a group's ranks. It returns nil if no feature
// provides one.
func (s *Session) newSpawner(g *Group) spawn.Spawner {
	if s.Providers.Spawner == nil {
		return nil
	}
	return s.Providers.Spawner(g)
}

// SetProgram sets the program of an app context whose program file was staged (App.StagedFile), for ranks
// that are about to start. It returns the reason if the ranks cannot run the program, or nil.
func (s *Session) SetProgram(g *Group, app int, path string) *rank.Error {
	for _, r := range g.ranks {
		if r.Plan.App != app {
			continue
		}
		r.command.Path = path
		if refused := s.detectPMI(g, r); refused != nil {
			return refused
		}
	}
	return nil
}

// SetVariable adds a variable to the environment of all ranks of a group that are about to start.
func (g *Group) SetVariable(name, value string) { g.variables = append(g.variables, name+"="+value) }
